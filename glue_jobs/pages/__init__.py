"""Reports, each as one HTML file."""

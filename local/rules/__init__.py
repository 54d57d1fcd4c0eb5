"""What AWS refuses: its limits, and what policies allow."""

"""`template.yaml` as deployed: translated, its references resolved, its roles read."""

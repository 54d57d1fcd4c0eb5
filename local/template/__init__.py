"""`template.yaml` as deployed: translated, with resolved references and roles."""

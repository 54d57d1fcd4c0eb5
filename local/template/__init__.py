"""Reads `template.yaml` as CloudFormation does: applies the SAM transform, and resolves references."""

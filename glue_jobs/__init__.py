"""Spark jobs over the archive, ready for AWS Glue."""

"""Spark jobs over the archive; AWS Glue runs them as they are."""

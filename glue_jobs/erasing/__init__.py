"""Erasure of the contents of records, everywhere in the archive."""

"""Changes that a machine makes to the shipped code, one at a time, and whether anything notices."""

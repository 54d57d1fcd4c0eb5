"""A demo on a temporary stack: `make demo`."""

"""A demo on a stack of its own: `make demo`."""

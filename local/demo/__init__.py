"""A story played on a stack of its own: `make demo`."""

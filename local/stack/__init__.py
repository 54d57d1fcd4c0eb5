"""Runs the whole service in one process tree: `make run`."""

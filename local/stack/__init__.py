"""The whole service in one process tree: `make run`."""

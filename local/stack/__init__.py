"""The whole service in one process: `make run`."""

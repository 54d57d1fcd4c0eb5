"""The HTTP API in front of the functions."""

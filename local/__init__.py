"""The local stack and the command line; never deployed."""

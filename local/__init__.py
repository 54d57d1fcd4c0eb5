"""The local stack and the command line; never deployed."""

OTHERS = 0o077
"""The rights that other users of this machine do not get to what is written here, as a umask."""

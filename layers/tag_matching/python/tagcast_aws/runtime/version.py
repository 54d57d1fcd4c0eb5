"""The version that the service tells its callers."""

VERSION = "0.1.0"

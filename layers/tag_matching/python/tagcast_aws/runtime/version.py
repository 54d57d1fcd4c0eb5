"""The version of the service, as shown to callers."""

VERSION = "0.1.0"

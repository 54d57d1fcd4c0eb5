"""The version of this client, and the version of the API that it uses."""

__version__ = "0.1.0"
API_VERSION = "2026-11-25"

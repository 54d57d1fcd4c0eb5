"""A simulated AWS; its limits are the one table of the project."""

from local import limits

__all__ = ["limits"]

"""A simulated AWS; its limits are the one table of the project."""

from local.rules import limits

__all__ = ["limits"]

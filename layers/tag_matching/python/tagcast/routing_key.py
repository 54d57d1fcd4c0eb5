"""Re-exports the routing-key rule for other programs (docs/filters.md, From Python)."""

from tagcast.filters.routing_key import matches_key

__all__ = ["matches_key"]

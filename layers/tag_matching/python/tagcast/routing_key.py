"""The rule of routing keys under the name by which other programs import it (docs/filters.md, From Python)."""

from tagcast.filters.routing_key import matches_key

__all__ = ["matches_key"]

"""The rule of tags under the name by which other programs import it (docs/filters.md, From Python)."""

from tagcast.filters.tags import java_hash_code, matches

__all__ = ["java_hash_code", "matches"]

"""Re-exports the tag rule for other programs (docs/filters.md, From Python)."""

from tagcast.filters.tags import java_hash_code, matches

__all__ = ["java_hash_code", "matches"]

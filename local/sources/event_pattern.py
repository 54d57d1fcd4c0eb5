"""Matches events with patterns of EventBridge. It supports only the rules that filters of event sources use here."""

from collections.abc import Mapping
from typing import Any


def matches(pattern: Mapping[str, Any], event: object) -> bool:
    """Return whether an event matches the pattern. Raises ValueError if the pattern has an unsupported rule.

    >>> matches({"eventName": ["INSERT"]}, {"eventName": "INSERT"})
    True
    >>> matches({"Keys": {"pk": {"S": [{"prefix": "MSG#"}]}}}, {"Keys": {"pk": {"S": "LANES#t"}}})
    False
    >>> matches({"state": [{"anything-but": ["idle"]}]}, {"state": "busy"})
    True
    >>> matches({"state": [{"anything-but": ["idle"]}]}, {})
    False
    """
    for name, wanted in pattern.items():
        found = event.get(name) if isinstance(event, dict) else None
        if isinstance(wanted, dict):
            if not matches(wanted, found):
                return False
        elif found not in wanted and not any(_admits(rule, found) for rule in wanted if isinstance(rule, dict)):
            return False
    return True


def _admits(rule: Mapping[str, Any], value: object) -> bool:
    match rule:
        case {"prefix": str(prefix)}:
            return isinstance(value, str) and value.startswith(prefix)
        case {"exists": bool(wanted)}:
            return (value is not None) == wanted
        case {"anything-but": list(excluded)}:
            return value is not None and value not in excluded
        case _:
            raise ValueError(f"the local stack does not support this rule: {rule}")

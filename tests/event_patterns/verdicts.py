"""What we say of a pattern and an event, as the words of a comparison."""

from tagcast.errors import FilterEvaluationError
from tagcast.filters.event_pattern.evaluate import matches
from tagcast.filters.event_pattern.event import event_in
from tagcast.filters.event_pattern.pattern import PatternError, read_pattern
from tagcast.strict_json import MalformedError, parse


def our_verdict(pattern: str, event: str) -> str:
    """Return ``true``, ``false``, ``refused``, or ``error`` for what would take too long."""
    try:
        read = read_pattern(parse(pattern.encode()))
    except (MalformedError, PatternError):
        return "refused"
    found = event_in(event.encode())
    if isinstance(found, str):
        return "false"
    try:
        return "true" if matches(read, found) else "false"
    except FilterEvaluationError:
        return "error"

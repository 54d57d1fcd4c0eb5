"""The filter kind ``routing_key``, which matches if one of its patterns matches the message's routing key."""

from collections.abc import Iterator
from dataclasses import dataclass

from tagcast.errors import Fault, FaultCode, InvalidFilterError
from tagcast.filters.compiled import CompiledFilter, FilterInput, FilterValue, is_plain_text, list_of_text, unknown_keys
from tagcast.filters.explanation import Explanation
from tagcast.filters.routing_key import (
    ANY_WORDS,
    ONE_WORD,
    SEPARATOR,
    matches_key,
    matches_words,
    pattern_words,
    split_words,
)

FILTER_PATTERNS_MAX = 5
KEY_BYTES_MAX = 64
KEY_DOTS_MAX = 15


@dataclass(frozen=True, slots=True)
class RoutingKeyFilter(CompiledFilter):
    """A filter that matches if one of its patterns matches the routing key. A missing routing key is the empty text."""

    kind = "routing_key"
    patterns: tuple[str, ...]

    def evaluate(self, message: FilterInput) -> bool:
        """Return whether one of the patterns matches (:func:`tagcast.filters.routing_key.matches_key`)."""
        key = message.routing_key or ""
        return any(matches_key(pattern, key) for pattern in self.patterns)

    def explain(self, message: FilterInput) -> Explanation:
        """Return a tree with a child for each pattern.

        The child of a pattern that matches says which words of the routing key each part of the pattern stands for. The
        child of another pattern says what the first difference is.
        """
        key = message.routing_key or ""
        children = tuple(_explain_pattern(pattern, key) for pattern in self.patterns)
        text = "routing key: " + " or ".join(self.patterns)
        return Explanation(text, self.evaluate(message), children, f"the message has {key!r}")

    def as_json(self) -> dict[str, object]:
        """Return the distinct patterns in the order written."""
        return {"kind": self.kind, "patterns": list(self.patterns)}


def compile_routing_key(value: FilterValue) -> RoutingKeyFilter:
    """Compile ``{"kind": "routing_key", "patterns": [...]}``. Raises InvalidFilterError with all faults.

    >>> compile_routing_key({"kind": "routing_key", "patterns": ["audit.#"]}).patterns
    ('audit.#',)
    """
    faults = unknown_keys(value, frozenset({"kind", "patterns"}))
    patterns = list_of_text(value, "patterns", FILTER_PATTERNS_MAX, "patterns", faults)
    if not patterns and not faults:
        faults.append(Fault("must have at least one pattern", "/patterns", FaultCode.TOO_SMALL))
    for pattern, place in patterns.items():
        faults.extend(Fault(detail, f"/patterns/{place}", code) for detail, code in key_faults(pattern))
    if faults:
        raise InvalidFilterError(tuple(faults))
    return RoutingKeyFilter(tuple(patterns))


def key_faults(text: str) -> Iterator[tuple[str, FaultCode]]:
    """Yield the faults of a routing key or a pattern: too many bytes or dots, empty words, control characters.

    >>> list(key_faults("order.new")), list(key_faults("a..b"))
    ([], [('must not have an empty word', <FaultCode.WRONG_FORMAT: 'wrong_format'>)])
    """
    if len(text.encode("utf-8", "surrogatepass")) > KEY_BYTES_MAX:
        yield f"must have at most {KEY_BYTES_MAX} bytes", FaultCode.TOO_LARGE
    if text.count(SEPARATOR) > KEY_DOTS_MAX:
        yield f"must have at most {KEY_DOTS_MAX} dots", FaultCode.TOO_LARGE
    if not text or "" in text.split(SEPARATOR):
        yield "must not have an empty word", FaultCode.WRONG_FORMAT
    if not is_plain_text(text):
        yield "must not have control characters or unpaired surrogates", FaultCode.WRONG_FORMAT


def _explain_pattern(pattern: str, key: str) -> Explanation:
    if not matches_key(pattern, key):
        return Explanation(pattern, False, note=_first_difference(pattern, key))
    words, rest = pattern_words(pattern), split_words(key)
    parts = []
    for place, word in enumerate(words):
        taken = 1
        if word == ANY_WORDS:
            taken = next(n for n in range(len(rest) + 1) if matches_words(words[place + 1 :], rest[n:]))
        parts.append(Explanation(word, True, note=f"stands for {SEPARATOR.join(rest[:taken])!r}"))
        rest = rest[taken:]
    return Explanation(pattern, True, tuple(parts))


def _first_difference(pattern: str, key: str) -> str:
    wanted, words = split_words(pattern), split_words(key)
    for place, word in enumerate(wanted):
        if word == ANY_WORDS:
            return "the words after # do not match"
        if place == len(words):
            return f"the key ends where {word!r} is expected"
        if word not in (ONE_WORD, words[place]):
            return f"word {place + 1} is {words[place]!r}, not {word!r}"
    return f"the key has {len(words) - len(wanted)} more words"

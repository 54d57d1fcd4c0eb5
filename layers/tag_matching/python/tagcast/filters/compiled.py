"""What every filter kind promises, and what it may read of a message."""

from collections.abc import Collection, Mapping
from typing import Protocol

from tagcast.errors import Fault
from tagcast.filters.explanation import Explanation

FilterValue = Mapping[str, object]
"""The JSON form of a filter, as in a subscription."""


class FilterInput(Protocol):
    """The part of a message that filters read; a message of the model fits."""

    @property
    def tags(self) -> frozenset[str] | tuple[str, ...]:
        """The distinct tags."""
        ...

    @property
    def routing_key(self) -> str | None:
        """Words separated by dots, or ``None``."""
        ...

    @property
    def properties(self) -> Mapping[str, str]:
        """Names to texts."""
        ...


class CompiledFilter(Protocol):
    """A validated filter, ready to be evaluated. It is plain data: it pickles and is never changed."""

    @property
    def kind(self) -> str:
        """The word of the JSON form; ``"everything"`` for no filter."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """Known traps of the filter as it was written, for the person who wrote it."""
        ...

    def evaluate(self, message: FilterInput) -> bool | None:
        """``True`` = received; ``False`` and ``None`` (unknown) = not.

        Raises :class:`tagcast.errors.FilterEvaluationError`, which never delivers.
        """
        ...

    def explain(self, message: FilterInput) -> Explanation:
        """Why :meth:`evaluate` answers as it does. Never raises: an error is a value of the tree."""
        ...

    def as_json(self) -> dict[str, object] | None:
        """The normal JSON form: compiling it gives an equal filter."""
        ...


def is_plain_text(text: str) -> bool:
    """Whether a text has no control characters and can be written as UTF-8.

    >>> is_plain_text("caf\\u00e9"), is_plain_text("a\\nb"), is_plain_text("\\ud800")
    (True, False, False)
    """
    return not any(c < " " or "\x7f" <= c <= "\x9f" or "\ud800" <= c <= "\udfff" for c in text)


def unknown_keys(value: FilterValue, known: frozenset[str]) -> list[Fault]:
    """One fault for each key that the kind does not have."""
    return [Fault("unknown field", f"/{pointer_part(key)}") for key in value if key not in known]


def pointer_part(key: object) -> str:
    """A key as one part of a JSON pointer (RFC 6901).

    >>> pointer_part("a/b~c")
    'a~1b~0c'
    """
    return str(key).replace("~", "~0").replace("/", "~1")


def list_of_text(value: FilterValue, key: str, most: int, what: str, faults: list[Fault]) -> tuple[str, ...]:
    """The texts of a list field without duplicates, each with faults of its own left to the caller.

    Texts come with their first index by position in ``value[key]``; whatever is no text is a fault here.
    """
    listed = value.get(key)
    if not isinstance(listed, (list, tuple)):
        faults.append(Fault(f"a list of {what} is required", f"/{key}"))
        return ()
    faults.extend(
        Fault(f"a {what.rstrip('s')} is a text", f"/{key}/{index}")
        for index, item in enumerate(listed)
        if not isinstance(item, str)
    )
    texts = tuple(dict.fromkeys(item for item in listed if isinstance(item, str)))
    if len(texts) > most:
        faults.append(Fault(f"at most {most} {what} are allowed, {len(texts)} are given", f"/{key}"))
    return texts


def first_index(listed: object, text: str) -> int:
    """Where a text stands in the list that was given, for pointers."""
    assert isinstance(listed, (list, tuple))
    return listed.index(text)


def quoted(texts: Collection[str]) -> str:
    """Texts for people: ``'a', 'b'`` or ``none``.

    >>> quoted(["a", "b"]), quoted([])
    ("'a', 'b'", 'none')
    """
    return ", ".join(map(repr, texts)) or "none"

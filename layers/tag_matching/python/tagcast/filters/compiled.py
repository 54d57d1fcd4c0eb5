"""What every filter kind promises, and what it may read of a message."""

import re
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Protocol

from tagcast.errors import Fault, FaultCode
from tagcast.filters.explanation import Explanation

SENT_TIMES_MAX = 10
"""Repetitions are dropped: of a list ten times its bound is looked at."""
UNKNOWN_TOLD_MAX = 100
"""At most 100 unknown fields are named."""
_NOT_PLAIN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

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

    @property
    def body(self) -> bytes | None:
        """The body as it was published, or ``None`` where it is not kept any more."""
        ...


class CompiledFilter(Protocol):
    """A validated filter, ready to be evaluated. It is plain data: it pickles and is never changed."""

    @property
    def kind(self) -> str:
        """The word of the JSON form; ``"everything"`` for no filter."""
        ...

    @property
    def reads_body(self) -> bool:
        """Whether there is no verdict without the body."""
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
    return not _NOT_PLAIN.search(text)


def unknown_keys(value: FilterValue, known: frozenset[str]) -> list[Fault]:
    """One fault for each key that the kind does not have, of the first ones."""
    unknown = islice((key for key in value if key not in known), UNKNOWN_TOLD_MAX)
    return [Fault("is not a known field", f"/{pointer_part(key)}", FaultCode.UNKNOWN) for key in unknown]


def pointer_part(key: object) -> str:
    """A key as one part of a JSON pointer (RFC 6901).

    >>> pointer_part("a/b~c")
    'a~1b~0c'
    """
    return str(key).replace("~", "~0").replace("/", "~1")


def list_of_text(value: FilterValue, key: str, most: int, what: str, faults: list[Fault]) -> dict[str, int]:
    """The texts of a list field without duplicates, and where each stands first; their own faults are the caller's.

    Whatever is no text is a fault here.

    >>> list_of_text({"tags": ["a", "b", "a"]}, "tags", 2, "tags", [])
    {'a': 0, 'b': 1}
    """
    listed = value.get(key)
    if not isinstance(listed, (list, tuple)):
        code = FaultCode.REQUIRED if listed is None else FaultCode.WRONG_TYPE
        faults.append(Fault(f"must be a list of {what}", f"/{key}", code))
        return {}
    if len(listed) > SENT_TIMES_MAX * most:
        detail = f"must have at most {SENT_TIMES_MAX * most} {what}, including repeated ones"
        faults.append(Fault(detail, f"/{key}", FaultCode.TOO_LARGE))
        return {}
    places: dict[str, int] = {}
    for index, item in enumerate(listed):
        if isinstance(item, str):
            places.setdefault(item, index)
        else:
            faults.append(Fault("must be a text", f"/{key}/{index}", FaultCode.WRONG_TYPE))
    if len(places) > most:
        detail = f"must have at most {most} different {what}, and has {len(places)}"
        faults.append(Fault(detail, f"/{key}", FaultCode.TOO_LARGE))
    return places


def quoted(texts: Collection[str]) -> str:
    """Texts for people: ``'a', 'b'`` or ``none``.

    >>> quoted(["a", "b"]), quoted([])
    ("'a', 'b'", 'none')
    """
    return ", ".join(map(repr, texts)) or "none"

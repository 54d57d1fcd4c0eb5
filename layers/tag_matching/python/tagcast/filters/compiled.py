"""The interface of compiled filters of every kind, and the fields of a message that a filter may read."""

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from itertools import islice
from typing import ClassVar, Protocol

from tagcast.errors import Fault, FaultCode
from tagcast.filters.explanation import Explanation

SENT_TIMES_MAX = 10
"""A list in a request may have ten times the allowed number of elements, because repeated elements are dropped."""
UNKNOWN_LISTED_MAX = 100
"""An error lists at most 100 unknown fields."""
_NOT_PLAIN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")

FilterValue = Mapping[str, object]
"""The JSON form of a filter, as in a subscription."""


class FilterInput(Protocol):
    """The fields of a message that filters read; `tagcast.model.Message` implements it."""

    @property
    def tags(self) -> frozenset[str] | tuple[str, ...]:
        """The distinct tags."""

    @property
    def routing_key(self) -> str | None:
        """The routing key, which has dots between its words, or ``None``."""

    @property
    def properties(self) -> Mapping[str, str]:
        """The text of each property, by name."""

    @property
    def body(self) -> bytes | None:
        """The published body, or ``None`` after its deletion."""


class CompiledFilter(ABC):
    """A validated, immutable filter that can be pickled.

    *kind* is the kind as in the JSON form, or ``"everything"`` for a subscription without a filter.
    """

    __slots__ = ()
    kind: ClassVar[str]

    @property
    def reads_body(self) -> bool:
        """Whether a verdict needs the body."""
        return False

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about parts of the filter that may not mean what the author intended."""
        return ()

    @abstractmethod
    def evaluate(self, message: FilterInput) -> bool | None:
        """Return whether the message matches. ``None`` is SQL's unknown, and counts as no match.

        Raises :class:`tagcast.errors.FilterEvaluationError` if the evaluation fails. The message then does not match.
        """

    @abstractmethod
    def explain(self, message: FilterInput) -> Explanation:
        """Return a tree that explains the result of :meth:`evaluate`. An error becomes a node, and is never raised."""

    @abstractmethod
    def as_json(self) -> dict[str, object] | None:
        """Return the normal JSON form, from which an equal filter can be compiled; None for no filter."""


def is_plain_text(text: str) -> bool:
    """Return whether a text has no control characters and is valid UTF-8.

    >>> is_plain_text("caf\\u00e9"), is_plain_text("a\\nb"), is_plain_text("\\ud800")
    (True, False, False)
    """
    return not _NOT_PLAIN.search(text)


def unknown_keys(value: FilterValue, known: frozenset[str]) -> list[Fault]:
    """Return a fault for each key of *value* that is not in *known*, at most :data:`UNKNOWN_LISTED_MAX` faults."""
    unknown = islice((key for key in value if key not in known), UNKNOWN_LISTED_MAX)
    return [Fault("is not a known field", f"/{pointer_part(key)}", FaultCode.UNKNOWN) for key in unknown]


def pointer_part(key: object) -> str:
    """Return *key*, escaped for a JSON pointer (RFC 6901).

    >>> pointer_part("a/b~c")
    'a~1b~0c'
    """
    return str(key).replace("~", "~0").replace("/", "~1")


def list_of_text(value: FilterValue, key: str, most: int, what: str, faults: list[Fault]) -> dict[str, int]:
    """Return the distinct texts in the list ``value[key]``, each with the index of its first occurrence.

    Add a fault to *faults* for more than *most* distinct texts, and for each element that is not a text. If there is no
    list, or if it has more than ten times *most* elements, add a fault and return an empty dict. *what* is the name of
    the elements in these faults, e.g. ``tags``. The caller checks the contents of the texts.

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


def quote_texts(texts: Collection[str]) -> str:
    """Return *texts* in quotes, for people to read: ``'a', 'b'`` or ``none``.

    >>> quote_texts(["a", "b"]), quote_texts([])
    ("'a', 'b'", 'none')
    """
    return ", ".join(map(repr, texts)) or "none"

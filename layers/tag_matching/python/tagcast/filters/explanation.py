"""The explanation of a filter's verdict: one tree for all filter kinds."""

from dataclasses import dataclass
from typing import Literal

Value = bool | None | Literal["error", "skipped"]
"""The value of a part. None is SQL's unknown. A skipped part was not evaluated, because an earlier part decided."""


def shorten(text: str, most: int) -> str:
    """Return *text* if it has at most *most* characters. Otherwise return its first *most* characters and ``…``.

    >>> shorten("apple", 5), shorten("apples", 5)
    ('apple', 'apple…')
    """
    return text if len(text) <= most else f"{text[:most]}…"


@dataclass(frozen=True, slots=True)
class Explanation:
    """One part of a filter, as *text*, with its *value* for one message. *children* are the parts of this part.

    The value is True, False, None (SQL's unknown), ``"error"``, or ``"skipped"`` for a part that was not evaluated.
    *note* says what the part found in the message, e.g. the value of a property.

    >>> Explanation("a = 1", True, note="a is '1'").as_json()
    {'text': 'a = 1', 'value': True, 'note': "a is '1'", 'children': []}
    """

    text: str
    value: Value
    children: "tuple[Explanation, ...]" = ()
    note: str = ""

    @property
    def verdict(self) -> Literal["matched", "not_matched", "error"]:
        """The verdict of the whole filter, if this part is its root. An unknown value is ``not_matched``."""
        if self.value == "error":
            return "error"
        return "matched" if self.value is True else "not_matched"

    def as_json(self) -> dict[str, object]:
        """Return the tree as JSON values. The function does not recurse, because expressions may be deep."""
        root: list[object] = []
        pending: list[tuple[Explanation, list[object]]] = [(self, root)]
        while pending:
            part, siblings = pending.pop()
            children: list[object] = []
            siblings.append({"text": part.text, "value": part.value, "note": part.note, "children": children})
            pending.extend((child, children) for child in reversed(part.children))
        result = root[0]
        assert isinstance(result, dict)
        return result

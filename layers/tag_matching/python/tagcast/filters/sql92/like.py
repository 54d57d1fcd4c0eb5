"""``LIKE`` without backtracking: each part of a pattern between two ``%`` is searched once, from left to right."""

from dataclasses import dataclass
from functools import lru_cache

_ANY = None
Part = str | tuple[str | None, ...]
"""A text, or a tuple of characters in which ``None`` stands for ``_`` and matches any character."""


@dataclass(frozen=True, slots=True)
class LikePattern:
    """A ``LIKE`` pattern, split at its ``%`` signs into *parts*. The first and the last part may be empty."""

    parts: tuple[Part, ...]

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches the pattern (case-sensitive).

        >>> parse_like("a%b_").matches("axxbc"), parse_like("a%").matches("A")
        (True, False)
        """
        first, last = self.parts[0], self.parts[-1]
        if len(self.parts) == 1:
            return len(text) == len(first) and _fits(first, text, 0)
        end = len(text) - len(last)
        if end < len(first) or not _fits(first, text, 0) or not _fits(last, text, end):
            return False
        at = len(first)
        for part in self.parts[1:-1]:
            at = _find(part, text, at, end)
            if at < 0:
                return False
        return True


def parse_like(pattern: str, escape: str = "") -> LikePattern:
    """Parse a pattern. The character after an escape character is literal. If *escape* is empty, nothing is escaped.

    Raises ValueError if no character follows an escape character.

    >>> parse_like("50\\\\%", "\\\\").matches("50%")
    True
    """
    parts: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            following = next(characters, None)
            if following is None:
                raise ValueError("The escape character requires a character after it")
            parts[-1].append(following)
        elif character == "%":
            if parts[-1] or len(parts) == 1:
                parts.append([])
        else:
            parts[-1].append(_ANY if character == "_" else character)
    return LikePattern(tuple(tuple(part) if _ANY in part else "".join(c for c in part if c) for part in parts))


def _fits(part: Part, text: str, at: int) -> bool:
    if isinstance(part, str):
        return text.startswith(part, at)
    return all(wanted is _ANY or wanted == text[at + place] for place, wanted in enumerate(part))


def _find(part: Part, text: str, at: int, end: int) -> int:
    """Return the offset after the first occurrence of *part* in ``text[at:end]``, or -1.

    If the part has ``_``, all offsets of the text are compared together, as the bits of one integer.
    """
    if isinstance(part, str):
        found = text.find(part, at, end)
        return found + len(part) if found >= 0 else -1
    starts = (1 << max(0, end - at - len(part) + 1)) - 1 << at
    for place, wanted in enumerate(part):
        if wanted is not None:
            starts &= _places(text, wanted) >> place
        if not starts:
            return -1
    return (starts & -starts).bit_length() - 1 + len(part)


@lru_cache(1_024)
def _places(text: str, character: str) -> int:
    """Return the offsets of a character in a text, as bits. They are cached, because many parts need them."""
    digits = bytearray(b"0" * (len(text) + 1))
    at = text.find(character)
    while at >= 0:
        digits[-1 - at] = ord("1")
        at = text.find(character, at + 1)
    return int(digits, 2)

"""Many tag filters at once: from each tag to the subscriptions that want it, few as a list and many as bits."""

from collections.abc import Collection, Mapping

FEW_MIN = 64
FEW_SHARE = 64
Posting = list[int] | int
"""Positions of subscriptions: a list while they are few, a number whose bits are set when they are many."""


class TagIndex:
    """An inverted index over positions 0 … ``count`` - 1; ``always`` are those that receive everything.

    >>> index = TagIndex.build(3, {0: {"apple"}, 1: {"imac", "apple"}}, [2])
    >>> bits, few = index.match({"imac"})
    >>> bits, sorted(few)
    (0, [1, 2])
    """

    def __init__(self, postings: Mapping[str, Posting], always: Posting) -> None:
        self._postings = postings
        self._always = always

    @classmethod
    def build(cls, count: int, tags: Mapping[int, Collection[str]], always: Collection[int]) -> "TagIndex":
        """Index the tags of each position."""
        lists: dict[str, list[int]] = {}
        for position, wanted in tags.items():
            for tag in wanted:
                lists.setdefault(tag, []).append(position)
        most = max(FEW_MIN, count // FEW_SHARE)
        postings = {tag: _posting(positions, most) for tag, positions in lists.items()}
        return cls(postings, _posting(list(always), most))

    def match(self, tags: Collection[str]) -> tuple[int, set[int]]:
        """Bits of positions and further positions; together they are the result."""
        bits, few = 0, set[int]()
        if isinstance(self._always, int):
            bits = self._always
        else:
            few.update(self._always)
        for tag in tags:
            posting = self._postings.get(tag)
            if isinstance(posting, int):
                bits |= posting
            elif posting is not None:
                few.update(posting)
        return bits, few

    def as_rows(self) -> list[object]:
        """Plain lists and texts, for a snapshot."""
        return [{tag: _row(posting) for tag, posting in self._postings.items()}, _row(self._always)]

    @classmethod
    def from_rows(cls, postings: Mapping[str, list[int] | str], always: list[int] | str) -> "TagIndex":
        """The index that :meth:`as_rows` described."""
        return cls({tag: _from_row(row) for tag, row in postings.items()}, _from_row(always))


def _posting(positions: list[int], most: int) -> Posting:
    if len(positions) <= most:
        return positions
    row = bytearray(max(positions) // 8 + 1)
    for position in positions:
        row[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(row, "little")


def _row(posting: Posting) -> list[int] | str:
    return f"{posting:x}" if isinstance(posting, int) else posting


def _from_row(row: list[int] | str) -> Posting:
    return int(row, 16) if isinstance(row, str) else row

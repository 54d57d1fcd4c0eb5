"""Matches a message with many tag filters at once. A tag's subscriptions are a list if few, or bits if many."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

FEW_MIN = 64
FEW_SHARE = 64
Posting = list[int] | int
"""Some subscriptions: a list of ordinals if they are few, or an integer with a bit for each position if many."""
_BITS = "x"


class TagIndex:
    """An index from tags to the ordinals of subscriptions. *always* are the subscriptions that match every message.

    >>> index = TagIndex.build([4, 5, 9], {4: {"apple"}, 5: {"imac", "apple"}}, [9])
    >>> bits, few = index.match({"imac"})
    >>> bits, sorted(few)
    (0, [5, 9])
    """

    def __init__(self, postings: dict[str, Posting | str], always: Posting | str) -> None:
        self._postings = postings
        self._always = _from_row(always)

    @classmethod
    def build(cls, ordinals: Sequence[int], tags: Mapping[int, Collection[str]], always: Collection[int]) -> "TagIndex":
        """Return an index of *tags*, which maps the ordinal of each subscription to the tags of its filter.

        *ordinals* are the sorted ordinals of all subscriptions. In integers of bits, a subscription has the bit at its
        position in *ordinals*. *always* are the ordinals that match every message.
        """
        lists: dict[str, list[int]] = {}
        for ordinal, wanted in tags.items():
            for tag in wanted:
                if tag in lists:
                    lists[tag].append(ordinal)
                else:
                    lists[tag] = [ordinal]
        most = max(FEW_MIN, len(ordinals) // FEW_SHARE)
        dense = [tag for tag, members in lists.items() if len(members) > most]
        postings: dict[str, Posting | str] = dict(lists)
        if dense or len(always) > most:
            places = {ordinal: place for place, ordinal in enumerate(ordinals)}
            for tag in dense:
                postings[tag] = _bits(places, lists[tag])
            if len(always) > most:
                return cls(postings, _bits(places, always))
        return cls(postings, list(always))

    def __len__(self) -> int:
        """Return the number of postings, including the posting of *always*."""
        return len(self._postings) + bool(self._always)

    def match(self, tags: Collection[str]) -> tuple[int, Collection[int]]:
        """Return the subscriptions that match a message with *tags*, in two parts that may overlap.

        The first part is an integer with a set bit at each subscription's position. The second part has ordinals.
        """
        bits = 0
        lists: list[list[int]] = []
        if isinstance(self._always, int):
            bits = self._always
        elif self._always:
            lists.append(self._always)
        for tag in tags:
            posting = self._postings.get(tag)
            if isinstance(posting, str):
                posting = self._postings[tag] = _from_row(posting)
            if isinstance(posting, int):
                bits |= posting
            elif posting is not None:
                lists.append(posting)
        if len(lists) < 2:
            return bits, lists[0] if lists else ()
        return bits, set().union(*lists)

    def as_rows(self) -> list[object]:
        """Return the postings as texts, for a snapshot. A posting is parsed when a message first has its tag."""
        return [{tag: _row(posting) for tag, posting in self._postings.items()}, _row(self._always)]

    @classmethod
    def from_rows(cls, postings: dict[str, Posting | str], always: str) -> "TagIndex":
        """Restore an index from its :meth:`as_rows`."""
        return cls(postings, always)


class AllTagsIndex:
    """The index of filters that require all of several tags. Each filter is stored below its rarest tag.

    >>> index = AllTagsIndex.build({4: {"apple", "imac"}, 5: {"apple", "pear"}})
    >>> index.match(("imac", "apple")), index.match(("apple",))
    ([4], [])
    """

    def __init__(self, postings: dict[str, list[tuple[int, list[str]]]]) -> None:
        self._postings = postings

    @classmethod
    def build(cls, tags: Mapping[int, Collection[str]]) -> "AllTagsIndex":
        """Return an index of *tags*, which maps the ordinal of each filter to the tags that it requires."""
        wanting = Counter(tag for wanted in tags.values() for tag in wanted)
        postings: dict[str, list[tuple[int, list[str]]]] = {}
        for ordinal, wanted in tags.items():
            rarest = min(sorted(wanted), key=wanting.__getitem__)
            postings.setdefault(rarest, []).append((ordinal, sorted(set(wanted) - {rarest})))
        return cls(postings)

    def __len__(self) -> int:
        """Return the number of postings."""
        return len(self._postings)

    def match(self, tags: Collection[str]) -> list[int]:
        """Return the ordinals of the filters whose tags are all in *tags*."""
        found: list[int] = []
        for tag in tags:
            for ordinal, others in self._postings.get(tag, ()):
                if all(other in tags for other in others):
                    found.append(ordinal)
        return found

    def as_rows(self) -> list[object]:
        """Return the index as plain lists and dicts, for a snapshot."""
        return [self._postings]


def _bits(places: Mapping[int, int], ordinals: Iterable[int]) -> int:
    row = bytearray(len(places) // 8 + 1)
    for ordinal in ordinals:
        place = places[ordinal]
        row[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(row, "little")


def _row(posting: Posting | str) -> str:
    if isinstance(posting, str):
        return posting
    return f"{_BITS}{posting:x}" if isinstance(posting, int) else ",".join(map(str, posting))


def _from_row(row: Posting | str) -> Posting:
    if not isinstance(row, str):
        return row
    if row.startswith(_BITS):
        return int(row[1:], 16)
    return list(map(int, row.split(","))) if row else []

"""Many topic patterns at once: one key finds all of them in time that follows the words of the key.

What this must agree with is the plain rule, :func:`tagcast.filters.routing_key.matches_key` for each pattern.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from tagcast.filters.routing_key import ANY_WORDS, ONE_WORD, SEPARATOR, pattern_words

MEMO_KEYS_MAX = 10_000
MEMO_OWNERS_MAX = 500_000
_NO_WORDS: "dict[str, _Node]" = {}
_Owners = Sequence[int]


class _Node:
    """One word of some patterns. What follows it stays text, and ``words`` none, until a key comes this far."""

    __slots__ = ("any_words", "one_word", "owners", "pending", "words")

    def __init__(self) -> None:
        self.owners: _Owners = ()
        self.pending: list[tuple[str, _Owners]] = []
        self.words: dict[str, _Node] | None = _NO_WORDS
        self.one_word: _Node | None = None
        self.any_words: _Node | None = None

    def grow(self) -> "dict[str, _Node]":
        """Make the nodes of the next words, and return those that are no wildcards."""
        nodes: dict[str, _Node] = {}
        for text, owners in self.pending:
            word, dot, rest = text.partition(SEPARATOR)
            node = nodes.get(word)
            if node is None:
                node = nodes[word] = _Node()
            if dot:
                node.words = None
                node.pending.append((rest, owners))
            else:
                node.owners = owners
        self.pending = []
        self.one_word = nodes.pop(ONE_WORD, None)
        self.any_words = nodes.pop(ANY_WORDS, None)
        self.words = nodes or _NO_WORDS
        return self.words


def _behind(lasting: Iterable[_Node], word: str) -> Iterator[_Node]:
    """Yield what one word behind any of the ``#`` reaches."""
    for node in lasting:
        words = node.words
        if words is None:
            words = node.grow()
        child = words.get(word)
        if child is not None:
            yield child
        if node.one_word is not None:
            yield node.one_word


def _ending(reached: Iterable[_Node], lasting: Container[_Node]) -> list[int]:
    """Return the owners of patterns that end where the key does; a ``#`` may stand there for no word at all."""
    found: list[int] = []
    for node in reached:
        found += node.owners
        if node.words is None:
            node.grow()
        repeat = node.any_words
        if repeat is not None and repeat not in lasting:
            found += repeat.owners
    return found


class RoutingTrie:
    """Patterns with their owners. Nodes are made where keys pass; keys met before are answered from a memo.

    >>> trie = RoutingTrie([("order.*.eu", 1), ("order.#", 2)])
    >>> trie.match("order.new.eu"), trie.match("order"), trie.match("audit")
    ((1, 2), (2,), ())
    """

    def __init__(self, patterns: Iterable[tuple[str, int]] = ()) -> None:
        owners: dict[str, dict[int, None]] = {}
        for pattern, owner in patterns:
            owners.setdefault(SEPARATOR.join(pattern_words(pattern)), {})[owner] = None
        self._memo: dict[str, tuple[int, ...]] = {}
        self._remembered = 0
        self._plant({pattern: list(every) for pattern, every in owners.items()})

    def __len__(self) -> int:
        """How many different patterns there are."""
        return len(self._owners)

    def match(self, key: str) -> tuple[int, ...]:
        """The owners of all matching patterns, sorted, each once."""
        found = self._memo.get(key)
        if found is None:
            found = self.walk(key)
            self._remembered += len(found)
            if len(self._memo) >= MEMO_KEYS_MAX or self._remembered > MEMO_OWNERS_MAX:
                self._memo.clear()
                self._remembered = len(found)
            self._memo[key] = found
        return found

    def walk(self, key: str) -> tuple[int, ...]:
        """As :meth:`match`, without the memo.

        The nodes reached so far go forward together. A ``#`` with words behind it is never left again, so it is
        kept apart, and once; every other node is reached once per word, because its parent is. Below such a ``#``
        a node may be reached again later, so from then on a ``#`` without words behind it is kept, too.
        """
        found: list[int] = []
        reached = [self._root]
        lasting: dict[_Node, None] = {}
        for word in key.split(SEPARATOR) if key else ():
            following: list[_Node] = []
            for node in reached:
                words = node.words
                if words is None:
                    words = node.grow()
                repeat = node.any_words
                if repeat is not None and repeat not in lasting:
                    found += repeat.owners
                    if lasting or repeat.words is None or repeat.words or repeat.one_word is not None:
                        lasting[repeat] = None
                child = words.get(word)
                if child is not None:
                    following.append(child)
                child = node.one_word
                if child is not None:
                    following.append(child)
            if lasting:
                following += _behind(lasting, word)
            reached = following
            if not reached and not lasting:
                break
        found += _ending(reached, lasting)
        # An owner with several patterns may be found several times.
        return tuple(found) if len(found) < 2 else tuple(sorted(set(found) if self._shared else found))

    @property
    def remembered(self) -> tuple[int, int]:
        """How many keys the memo holds now, and how many owners in all; both are bounded."""
        return len(self._memo), self._remembered

    def as_rows(self) -> list[object]:
        """Plain lists and dicts, for a snapshot."""
        return [self._owners]

    @classmethod
    def from_rows(cls, owners: Mapping[str, list[int]]) -> "RoutingTrie":
        """The trie that :meth:`as_rows` described.

        >>> RoutingTrie.from_rows(*RoutingTrie([("a.#", 7)]).as_rows()).match("a.b")
        (7,)
        """
        trie = cls()
        trie._plant(owners)
        return trie

    def _plant(self, owners: Mapping[str, list[int]]) -> None:
        self._owners = owners
        every = [owner for several in owners.values() for owner in several]
        self._shared = len(set(every)) < len(every)
        self._root = _Node()
        self._root.words = None
        self._root.pending = [(pattern, several) for pattern, several in owners.items() if pattern]
        self._root.owners = owners.get("", ())

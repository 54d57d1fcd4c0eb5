"""Matches a routing key with many patterns at once, in a time proportional to the number of the key's words.

Tests compare the result with :func:`tagcast.filters.routing_key.matches_key` for each pattern.
"""

from collections.abc import Iterable, Mapping, Sequence

from tagcast.filters.routing_key import ANY_WORDS, ONE_WORD, SEPARATOR, pattern_words

MEMO_KEYS_MAX = 10_000
MEMO_OWNERS_MAX = 500_000
_Owners = Sequence[int]


class _Node:
    """The rests of all patterns that begin with the words before this node. *words* maps a next word to its node.

    Until a key reaches the node, the rests are text in *pending*, and *words* is None. A pattern that ends with the
    next word has no node there: its owners are in *ends*, *one_word_ends* (for ``*``) or *always* (for ``#``). *ends*
    also has the owners of ``word.#``, whose ``#`` may match no word.
    """

    __slots__ = ("always", "any_words", "ends", "one_word", "one_word_ends", "pending", "words")

    def __init__(self) -> None:
        self.pending: list[tuple[str, _Owners]] = []
        self.words: dict[str, _Node] | None = None

    def grow(self) -> "dict[str, _Node]":
        """Build the child nodes from *pending*. Return those of plain words; a wildcard's node has its own field."""
        words: dict[str, _Node] = {}
        ends: dict[str, _Owners] = {}
        for text, owners in self.pending:
            word, dot, rest = text.partition(SEPARATOR)
            if not dot or rest == ANY_WORDS:
                ends[word] = [*ends[word], *owners] if word in ends else owners
            if dot:
                node = words.get(word)
                if node is None:
                    node = words[word] = _Node()
                node.pending.append((rest, owners))
        del self.pending
        self.one_word, self.any_words = words.pop(ONE_WORD, None), words.pop(ANY_WORDS, None)
        self.one_word_ends, self.always = ends.pop(ONE_WORD, ()), ends.pop(ANY_WORDS, ())
        self.words, self.ends = words, ends
        return words


def _keep(repeat: _Node, reached: list[_Node], lasting: dict[_Node, None]) -> None:
    """Add the node of a ``#`` to *reached*, and to *lasting* for the rest of the key, unless it is there already."""
    if repeat not in lasting:
        lasting[repeat] = None
        reached.append(repeat)


def _find_ends(word: str, found: list[int], reached: list[_Node], lasting: dict[_Node, None]) -> None:
    """Add to *found* the owners of the patterns at the nodes *reached* that end with *word*, the key's last word."""
    for node in reached:
        if node.words is None:
            node.grow()
        if node.always:
            found += node.always
        if node.any_words is not None:
            _keep(node.any_words, reached, lasting)
        if word in node.ends:
            found += node.ends[word]
        if node.one_word_ends:
            found += node.one_word_ends


class RoutingTrie:
    """Routing-key patterns with their owners, the ordinals of subscriptions. The results for recent keys are cached.

    A node of the trie is built when a key first reaches the node.

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
        """Return the number of distinct patterns."""
        return len(self._owners)

    def match(self, key: str) -> tuple[int, ...]:
        """Return the owners of all patterns that match *key*, sorted and distinct."""
        memo = self._memo
        found = memo.get(key)
        if found is None:
            found = memo[key] = self.walk(key)
            self._remembered += len(found)
            if len(memo) > MEMO_KEYS_MAX or self._remembered > MEMO_OWNERS_MAX:
                memo.clear()
                self._remembered = 0
        return found

    def walk(self, key: str) -> tuple[int, ...]:
        """Return the result of :meth:`match` without the cache."""
        if not key:
            return self._wordless
        before = key.split(SEPARATOR)
        last = before.pop()
        found: list[int] = []
        reached = [self._root]
        # A `#` node stays active for all later words; `lasting` holds each once. Nodes below it may be found twice.
        lasting: dict[_Node, None] = {}
        for word in before:
            following: list[_Node] = []
            for node in reached:
                words = node.words
                if words is None:
                    words = node.grow()
                if node.always:
                    found += node.always
                if node.any_words is not None:
                    _keep(node.any_words, reached, lasting)
                if word in words:
                    following.append(words[word])
                child = node.one_word
                if child is not None:
                    following.append(child)
            reached = [*following, *lasting] if lasting else following
        _find_ends(last, found, reached, lasting)
        if lasting or self._shared:
            found = list(set(found))
        found.sort()
        return tuple(found)

    @property
    def remembered(self) -> tuple[int, int]:
        """The number of keys in the cache, and the sum of the numbers of owners in their results. Both are bounded."""
        return len(self._memo), self._remembered

    def as_rows(self) -> list[object]:
        """Return the patterns with their owners as plain lists and dicts, for a snapshot."""
        return [self._owners]

    @classmethod
    def from_rows(cls, owners: Mapping[str, list[int]]) -> "RoutingTrie":
        """Restore a trie from its :meth:`as_rows`.

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
        self._root.pending = [(pattern, several) for pattern, several in owners.items() if pattern]
        self._wordless = tuple(sorted({*owners.get("", ()), *owners.get(ANY_WORDS, ())}))

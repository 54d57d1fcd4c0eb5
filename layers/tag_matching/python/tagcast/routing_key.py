"""Routing keys: RabbitMQ's topic patterns, one by one and many at once."""

from collections.abc import Iterable

SEPARATOR = "."
ONE_WORD = "*"
ANY_WORDS = "#"
STATES_MAX = 50_000
RESULTS_MAX = 2_000_000
MEMO_MAX = 10_000


def split_words(text: str) -> list[str]:
    """The words of a key or a pattern. The empty text has none; otherwise every dot separates.

    >>> split_words("a..b"), split_words("")
    (['a', '', 'b'], [])
    """
    return text.split(SEPARATOR) if text else []


def matches_key(pattern: str, key: str) -> bool:
    """Whether a routing key matches a pattern: ``*`` is exactly one word, ``#`` any number of words.

    All positions of the pattern advance together as the bits of one number, so no pattern makes this explode.

    >>> matches_key("order.*.eu", "order.new.eu"), matches_key("audit.#", "audit"), matches_key("a*", "ab")
    (True, True, False)
    """
    if ONE_WORD not in pattern and ANY_WORDS not in pattern:
        return pattern == key
    return matches_words(pattern_words(pattern), split_words(key))


def matches_words(words: list[str], key_words: list[str]) -> bool:
    """:func:`matches_key` on words; ``words`` has no neighbouring ``#``.

    >>> matches_words(["*"], [""]), matches_words(["*"], [])
    (True, False)
    """
    places: dict[str, int] = {}
    for place, word in enumerate(words):
        places[word] = places.get(word, 0) | 1 << place
    any_words = places.pop(ANY_WORDS, 0)
    one_word = places.pop(ONE_WORD, 0)
    reached = 1
    reached |= (reached & any_words) << 1
    for word in key_words:
        stayed = reached & any_words
        reached = (reached & (places.get(word, 0) | one_word)) << 1 | stayed
        reached |= (reached & any_words) << 1
        if not reached:
            return False
    return bool(reached >> len(words) & 1)


def pattern_words(pattern: str) -> list[str]:
    """The words of a pattern; neighbouring ``#`` are one, which means the same.

    >>> pattern_words("a.#.#.b")
    ['a', '#', 'b']
    """
    words: list[str] = []
    for word in split_words(pattern):
        if word != ANY_WORDS or not words or words[-1] != ANY_WORDS:
            words.append(word)
    return words


class _State:
    """A set of trie nodes that are active together, with the transitions met so far."""

    __slots__ = ("known", "nodes", "otherwise", "owners", "steps")

    def __init__(self, nodes: frozenset[int], owners: tuple[int, ...], known: frozenset[str]) -> None:
        self.nodes = nodes
        self.owners = owners
        self.known = known
        self.steps: dict[str, _State] = {}
        self.otherwise: _State | None = None


class RoutingTrie:
    """Many patterns with their owners; one key finds all of them in time that follows the words of the key.

    The trie is the truth. Over it an automaton is built lazily: its states are sets of trie nodes, its
    transitions are remembered, and words that no active node knows share one transition. Keys met before are
    answered from a memo. Both are bounded: when full they are dropped and fill again.

    >>> trie = RoutingTrie([("order.*.eu", 1), ("order.#", 2)])
    >>> trie.match("order.new.eu"), trie.match("order"), trie.match("audit")
    ((1, 2), (2,), ())
    """

    def __init__(self, patterns: Iterable[tuple[str, int]] = ()) -> None:
        self._children: list[dict[str, int]] = [{}]
        self._owners: list[list[int]] = [[]]
        self._repeats: set[int] = set()
        for pattern, owner in patterns:
            self._add(pattern, owner)
        self._forget()

    def match(self, key: str) -> tuple[int, ...]:
        """The owners of all matching patterns, sorted, each once."""
        found = self._memo.get(key)
        if found is None:
            found = self.walk(key)
            if len(self._memo) >= MEMO_MAX:
                self._memo.clear()
            self._memo[key] = found
        return found

    def as_rows(self) -> list[object]:
        """The trie as plain lists and dicts, for a snapshot (see :meth:`from_rows`)."""
        return [self._children, self._owners, sorted(self._repeats)]

    @classmethod
    def from_rows(cls, children: list[dict[str, int]], owners: list[list[int]], repeats: list[int]) -> "RoutingTrie":
        """The trie that :meth:`as_rows` described.

        >>> RoutingTrie.from_rows(*RoutingTrie([("a.#", 7)]).as_rows()).match("a.b")
        (7,)
        """
        trie = cls()
        trie._children, trie._owners, trie._repeats = children, owners, set(repeats)
        trie._forget()
        return trie

    @property
    def states(self) -> int:
        """How many states the automaton has now; never more than a fixed bound."""
        return len(self._states)

    def _add(self, pattern: str, owner: int) -> None:
        node = 0
        for word in pattern_words(pattern):
            child = self._children[node].get(word)
            if child is None:
                child = self._children[node][word] = len(self._children)
                self._children.append({})
                self._owners.append([])
                if word == ANY_WORDS:
                    self._repeats.add(child)
            node = child
        if owner not in self._owners[node]:
            self._owners[node].append(owner)

    def _forget(self) -> None:
        self._memo: dict[str, tuple[int, ...]] = {}
        self._states: dict[frozenset[int], _State] = {}
        self._results = 0
        self._start = self._state({0})

    def walk(self, key: str) -> tuple[int, ...]:
        """As :meth:`match`, without the memo."""
        if len(self._states) > STATES_MAX or self._results > RESULTS_MAX:
            self._forget()
        state = self._start
        for word in split_words(key):
            following = state.steps.get(word)
            if following is None:
                following = self._step(state, word)
            state = following
        return state.owners

    def _step(self, state: _State, word: str) -> _State:
        # A key may hold "*" or "#" as a word: to a pattern these are only any other word.
        known = word in state.known
        if not known and state.otherwise is not None:
            return state.otherwise
        reached = set(state.nodes & self._repeats)
        for node in state.nodes:
            children = self._children[node]
            if known and word in children:
                reached.add(children[word])
            if ONE_WORD in children:
                reached.add(children[ONE_WORD])
        following = self._state(reached)
        if known:
            state.steps[word] = following
        else:
            state.otherwise = following
        return following

    def _state(self, nodes: set[int]) -> _State:
        nodes |= {self._children[node][ANY_WORDS] for node in nodes if ANY_WORDS in self._children[node]}
        key = frozenset(nodes)
        state = self._states.get(key)
        if state is None:
            owners = {owner for node in key for owner in self._owners[node]}
            known = frozenset[str]().union(*(self._children[node] for node in key)) - {ONE_WORD, ANY_WORDS}
            state = self._states[key] = _State(key, tuple(sorted(owners)), known)
            self._results += len(owners) + len(known) + len(key)
        return state

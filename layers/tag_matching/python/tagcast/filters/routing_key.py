"""Matches a routing key with one pattern. :mod:`tagcast.filters.index.routing_trie` matches many patterns at once."""

SEPARATOR = "."
ONE_WORD = "*"
ANY_WORDS = "#"


def split_words(text: str) -> list[str]:
    """Return the words of a key or a pattern, split at every dot. The empty text has no words.

    >>> split_words("a..b"), split_words("")
    (['a', '', 'b'], [])
    """
    return text.split(SEPARATOR) if text else []


def matches_key(pattern: str, key: str) -> bool:
    """Return whether a routing key matches a pattern. ``*`` stands for one word, ``#`` for any number of words.

    All positions that are reached in the pattern are bits of one integer. So no pattern takes exponential time.

    >>> matches_key("order.*.eu", "order.new.eu"), matches_key("audit.#", "audit"), matches_key("a*", "ab")
    (True, True, False)
    """
    if ONE_WORD not in pattern and ANY_WORDS not in pattern:
        return pattern == key
    return matches_words(pattern_words(pattern), split_words(key))


def matches_words(words: list[str], key_words: list[str]) -> bool:
    """Return the result of :func:`matches_key` for lists of words. ``words`` must not have neighbouring ``#``.

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
    """Return the words of a pattern. Neighbouring ``#`` become one ``#``, which matches the same keys.

    >>> pattern_words("a.#.#.b")
    ['a', '#', 'b']
    """
    words: list[str] = []
    for word in split_words(pattern):
        if word != ANY_WORDS or not words or words[-1] != ANY_WORDS:
            words.append(word)
    return words

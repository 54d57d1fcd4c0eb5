"""Texts of the console are plain: their subject is the reader or a named part, and each thing has one word."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from tests.unit.test_plain_sentences import literals

CONSOLE = Path(__file__).resolve().parents[3] / "local/console"
RIDDLES = re.compile(
    r"(?:^|[.:;?!>] )(?:What|Who|Whose)\b|"
    r"\b(?:whoever|whatever|somebody|nobody|anybody|everybody)\b|"
    r"\b(?:those|that|what) (?:that|of which|is owed|are owed)\b|\bof which\b|"
    r"\b(?:owed|owes|settled|agreed|exchanged?)\b|\bunder way\b|\bin a second\b",
    re.IGNORECASE,
)
"""Beginnings without a subject that has a name, and words that the glossary has better ones for."""
WORDS_MAX = 20
SKIPPED_TAGS = re.compile(r"<(script|style|svg|code)\b.*?</\1>", re.DOTALL)
SEEN_ATTRIBUTE = re.compile(r'\b(?:aria-label|title|placeholder)="((?:[^"{]|{{.*?}})*)"')
JINJA = re.compile(r"{#.*?#}|{%(.*?)%}|{{(.*?)}}", re.DOTALL)
LITERAL = re.compile(r'"([^"]*)"')
SCRIPT_TEXT = re.compile(r'"([^"\n]*)"|`([^`]*)`')
FIELD = "N"
"""Stands for a value within a text."""


def template_texts(source: str) -> Iterator[str]:
    """Yield the texts between the tags of a template, those of attributes that are read, and literals of expressions.

    >>> list(template_texts('<p title="now">Of {{ n }} {{ "lanes" if n > 1 }}</p>'))
    ['now', 'lanes', 'Of N N']
    """
    source = SKIPPED_TAGS.sub(FIELD, source)
    yield from (JINJA.sub(FIELD, text) for text in SEEN_ATTRIBUTE.findall(source))
    for statement, expression in JINJA.findall(source):
        yield from (text for text in LITERAL.findall(statement + expression) if "<" not in text)
    shown = JINJA.sub(lambda found: "\n" if found.group(2) is None else FIELD, source)
    texts = re.sub(r"<[^>]*>", "\n", shown)
    yield from (unescape(line.strip()) for line in texts.splitlines() if line.strip())


def texts() -> Iterator[tuple[str, str]]:
    """Yield all texts of the console with the file of each."""
    for path in sorted(CONSOLE.glob("templates/*.html")):
        yield from ((path.name, text) for text in template_texts(path.read_text()))
    for path in sorted(CONSOLE.glob("*.py")):
        yield from ((path.name, text) for _, text in literals(path))
    script = re.sub(r"/\*.*?\*/|//[^\n]*", "", (CONSOLE / "static/console.js").read_text(), flags=re.DOTALL)
    yield from (("console.js", one or other) for one, other in SCRIPT_TEXT.findall(script))


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?:;])\s+", text)


def is_sentence(text: str) -> bool:
    """Say whether a text has several words, and is neither SQL nor a header."""
    return " " in text and not re.search(r"SELECT|INSERT|DELETE FROM|CREATE |SEARCH\(|default-src", text)


def test_no_text_is_a_riddle_or_has_a_word_that_was_replaced() -> None:
    found = [(name, text) for name, text in texts() if is_sentence(text) and RIDDLES.search(text)]

    assert found == [], "name the subject, and use the word of the field"


def test_sentences_are_short() -> None:
    found = [
        (name, each)
        for name, text in texts()
        if is_sentence(text)
        for each in sentences(text)
        if len(each.split()) > WORDS_MAX
    ]

    assert found == []


@pytest.mark.parametrize(
    "riddle",
    [
        "What it says",
        "Nobody is subscribed.",
        "It waits. Whoever pulls gets it.",
        "1 need somebody: nothing is tried",
        "Two lanes, of which one waits",
        "13 are owed",
        "Nothing is owed to those that wait",
    ],
)
def test_riddles_are_noticed(riddle: str) -> None:
    assert RIDDLES.search(riddle)

"""The words of public names: each is ours (the glossary), the field's, or a plain word of a list that only shrinks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORE = ROOT / "layers/tag_matching/python/tagcast"
ROOMS = ("delivery", "pushing", "rows", "repairing", "operating", "pulling")
PLAIN_WORDS = Path(__file__).with_name("plain_words.txt")
FIELD_WORDS = Path(__file__).with_name("field_words.txt")
"""Terms of SQS, Kafka, RocketMQ, CMQ, AWS or a textbook, with their meaning there."""
PLAIN_WORDS_MAX, OWN_NOUNS_MAX = 410, 35
ONE_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def words_in(name: str) -> set[str]:
    """Return the words of an identifier.

    >>> sorted(words_in("RECEIPT_BYTES_MAX") | words_in("LaneLease"))
    ['bytes', 'lane', 'lease', 'max', 'receipt']
    """
    return {word.lower() for part in name.split("_") for word in ONE_WORD.findall(part)}


def public_names(module: Path) -> Iterator[str]:
    if module.stem != "__init__":
        yield module.stem
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            yield node.name
        if isinstance(node, ast.Assign):
            yield from (each.id for target in node.targets for each in ast.walk(target) if isinstance(each, ast.Name))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from (each.name for each in node.body if isinstance(each, FUNCTIONS))
            yield from (
                each.target.id
                for each in node.body
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
            )


def glossary() -> list[str]:
    """Return our own words."""
    return re.findall(r"^\| \*\*(.+?)\*\* \|", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)


def used() -> set[str]:
    modules = [module for room in ROOMS for module in sorted((CORE / room).glob("*.py"))]
    names = (name for module in modules for name in public_names(module) if not name.startswith("_"))
    return set[str]().union(*map(words_in, names))


def test_every_word_of_a_public_name_is_in_the_glossary_or_of_the_field_or_a_plain_word() -> None:
    ours = {word for noun in glossary() for word in re.findall(r"[a-z]+", noun.lower())}
    field, plain = FIELD_WORDS.read_text().split(), PLAIN_WORDS.read_text().split()

    assert sorted(used() - ours - {*field, *plain}) == [], "look for the field's word, or put it into the glossary"
    assert sorted({*field, *plain} - used()) == [], "these words are not used any more: take them off the list"
    assert sorted({*field, *plain} & ours) == [], "these words are in the glossary"
    assert field + plain == sorted(set(field)) + sorted(set(plain))
    assert sorted(set(field) & set(plain)) == []
    assert len(plain) <= PLAIN_WORDS_MAX


def test_our_own_words_are_few() -> None:
    assert len(glossary()) <= OWN_NOUNS_MAX


def test_no_constant_is_explained_by_so_many() -> None:
    folders = (ROOT / name for name in ("layers", "functions", "local", "glue_jobs", "clients"))
    sources = [module for folder in folders for module in folder.rglob("*.py")]
    riddle = re.compile(r'"""So (many|much|long|often|far|late)\b')

    assert [str(module.relative_to(ROOT)) for module in sources if riddle.search(module.read_text())] == []

"""Help, problems and errors are plain sentences: their subject is the reader or a named part, never "what" or "who"."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tagcast_cli.app import app

ROOT = Path(__file__).parents[2]
LAYER = ROOT / "layers/tag_matching/python"
SPOKEN = (
    ROOT / "clients/cli/tagcast_cli",
    ROOT / "clients/python/tagcast_client",
    LAYER / "tagcast_aws/api",
    LAYER / "tagcast_aws/endpoints",
    LAYER / "tagcast",
)
RIDDLE = re.compile(
    r"(?:^|[.:!?] )(?:what|who|whoever|whatever)\b(?!['’])|\b(?:somebody|nobody|those that|of which)\b", re.IGNORECASE
)
REMEDY = "name the subject: a sentence does not begin with what or who, and has no somebody, nobody, of which"
SENTENCE = re.compile(r"[A-Za-z]{2,} +[a-z]")


def riddle_in(sentence: str) -> str | None:
    """Return the words that make a sentence a riddle.

    >>> riddle_in("What producers wrote stays."), riddle_in("a key: nobody reads it"), riddle_in("It is write-only.")
    ('What', 'nobody', None)
    """
    found = RIDDLE.search(" ".join(sentence.split()))
    return None if found is None else found[0].lstrip(".:!? ")


def help_texts(command: Any, name: str = "tagcast") -> Iterator[tuple[str, str]]:
    yield name, command.help or ""
    for option in command.params:
        yield f"{name} {option.name}", getattr(option, "help", None) or ""
    for inner, below in getattr(command, "commands", {}).items():
        yield from help_texts(below, f"{name} {inner}")


def literals(module: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module that people may read: no docstrings, and an f-string's values as dashes."""
    tree = ast.parse(module.read_text())
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            silent.update(id(part) for part in node.values)
            texts = (str(each.value) if isinstance(each, ast.Constant) else "-" for each in node.values)
            yield node.lineno, "".join(texts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.lineno, node.value


def public_docstrings(module: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_"):
            yield node.lineno, (ast.get_docstring(node) or "").partition(">>>")[0]


def test_every_help_text_is_plain() -> None:
    texts = dict(help_texts(typer.main.get_command(app)))

    assert len(texts) > 200
    assert {name: riddle for name, text in texts.items() if (riddle := riddle_in(text))} == {}, REMEDY


@pytest.mark.parametrize("folder", SPOKEN, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_every_printed_line_problem_and_error_is_plain(folder: Path) -> None:
    found = [
        f"{module.relative_to(ROOT)}:{line}: {text}"
        for module in sorted(folder.rglob("*.py"))
        for line, text in literals(module)
        if SENTENCE.search(text) and riddle_in(text)
    ]

    assert found == [], REMEDY


def test_every_public_docstring_of_the_client_is_plain() -> None:
    client = ROOT / "clients/python/tagcast_client"
    found = [
        f"{module.name}:{line}: {text}"
        for module in sorted(client.rglob("*.py"))
        for line, text in public_docstrings(module)
        if riddle_in(text)
    ]

    assert found == []

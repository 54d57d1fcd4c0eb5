"""The documents that are made from the code: `python -m local.documents` writes them, a test compares them."""

from __future__ import annotations

import html
import importlib
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tagcast import rows
from tagcast.rows.declaration import NOT_OPTIONAL, Declaration
from tagcast.tables import Table

from local.template.translated import read_template

ROOT = Path(__file__).resolve().parents[1]
CLI, DEPLOY, TABLES = "docs/cli.md", "docs/deploy.md", "docs/tables.md"


def documents() -> dict[str, str]:
    """Return the text of every document that is made from the code, whole or in part, by its path."""
    tables = (ROOT / TABLES).read_text()
    for table in Table:
        tables = _with_part(tables, table.value, _rows(table))
    deploy = _with_part((ROOT / DEPLOY).read_text(), "parameters", _parameters())
    return {CLI: commands(), DEPLOY: deploy, TABLES: tables}


def commands() -> str:
    """Return the reference of the command line, as Typer writes it."""
    written = subprocess.run(
        [sys.executable, "-m", "typer", "local.cli.app", "utils", "docs", "--name", "tagcast"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return html.unescape(written).strip() + "\n"


def _parameters() -> str:
    rows = (f"| `{name}` | {default} | {text} |" for name, default, text in _described())
    return "\n".join(["| parameter | default | |", "|---|---|---|", *rows])


def _described() -> Iterator[tuple[str, str, str]]:
    for name, parameter in read_template(ROOT / "template.yaml").parameters.items():
        text = " ".join(parameter["Description"].split())
        default = str(parameter["Default"])
        yield name, f"`{default}`" if default else "none", re.sub(r"docs/([\w-]+\.md)", r"[\1](\1)", text)


def declarations() -> Iterator[tuple[Table, str, str, Declaration[Any]]]:
    """Yield every kind of row with its table and the looks of its keys, in their order."""
    found = {}
    for module in pkgutil.iter_modules(rows.__path__, "tagcast.rows."):
        for each in vars(importlib.import_module(module.name)).values():
            if isinstance(each, Declaration):
                found[_looks(each)] = each
    for (table, pk, sk), each in sorted(found.items(), key=lambda item: item[0]):
        yield Table(table), pk, sk, each


def _looks(each: Declaration[Any]) -> tuple[str, str, str]:
    return each.key if isinstance(each.key, tuple) else each.key.looks


def _rows(table: Table) -> str:
    """Return the kinds of rows of a table, each with its attributes."""
    lines = []
    for its, pk, sk, each in declarations():
        if its is table:
            written = f" Written by: {each.writes}." if each.writes else ""
            about = f"{each.what[0].upper()}{each.what[1:]}.{written} Goes: {each.goes}."
            lines += [f"### `{pk}` / `{sk}`", "", about, "", "| attribute | stands as | left out |", "|---|---|---|"]
            lines += [f"| `{name}` | {kind} | {_left_out(absent)} |" for name, kind, absent in each.attributes()]
            lines.append("")
    return "\n".join(["", *lines])


def _left_out(absent: object) -> str:
    """Return when a row has no such attribute.

    >>> _left_out(NOT_OPTIONAL), _left_out(None), _left_out(()), _left_out(False)
    ('', 'without a value', 'when empty', 'when it is not so')
    """
    if absent is NOT_OPTIONAL:
        return ""
    if absent is None:
        return "without a value"
    if absent is False:
        return "when it is not so"
    return "when empty" if absent in ("", b"", (), frozenset(), {}) else f"when `{absent}`"


def _with_part(text: str, name: str, part: str) -> str:
    """Return *text* with what stands between the marks of a part exchanged."""
    marks = re.compile(rf"(<!-- {name}: .*? -->\n).*?(<!-- end -->)", re.DOTALL)
    return marks.sub(lambda found: f"{found[1]}{part}\n{found[2]}", text)


if __name__ == "__main__":
    for path, text in documents().items():
        (ROOT / path).write_text(text)

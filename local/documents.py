"""The documents that are made from the code: `python -m local.documents` writes them, a test compares them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from tagcast.model import LaneState
from tagcast.rows.lane import Lane
from tagcast.rows.lane_transitions import TRANSITIONS, Transition
from tagcast.tables import Delete, Update

from local.template.translated import read_template

ROOT = Path(__file__).resolve().parents[1]
ARCHIVE, DEPLOY, PROTOCOL = "docs/archive.md", "docs/deploy.md", "docs/protocol.md"
_STATES = tuple(LaneState)
_ATTRIBUTES = tuple(each.name for each in fields(Lane))


def documents() -> dict[str, str]:
    """Return the text of every document that is made from the code, whole or in part, by its path."""
    archive = (ROOT / ARCHIVE).read_text()
    for name, columns in _columns():
        archive = _with_part(archive, f"{name} columns", columns)
    deploy = _with_part((ROOT / DEPLOY).read_text(), "parameters", _parameters())
    protocol = _with_part((ROOT / PROTOCOL).read_text(), "lane transitions", _transitions())
    return {ARCHIVE: archive, DEPLOY: deploy, PROTOCOL: protocol}


def _columns() -> Iterator[tuple[str, str]]:
    """Yield the name of each table of the archive, and the columns that the template gives it."""
    for _, table in read_template(ROOT / "template.yaml").of_type("AWS::Glue::Table"):
        named = table["TableInput"]
        rows = (
            f"| `{each['Name']}` | {each['Type']} | {each['Comment']} |"
            for each in named["StorageDescriptor"]["Columns"]
        )
        yield named["Name"], "\n".join(["| column | type | meaning |", "|---|---|---|", *rows])


def _parameters() -> str:
    rows = (f"| `{name}` | {default} | {text} |" for name, default, text in _described())
    return "\n".join(["| parameter | default | |", "|---|---|---|", *rows])


def _described() -> Iterator[tuple[str, str, str]]:
    for name, parameter in read_template(ROOT / "template.yaml").parameters.items():
        text = " ".join(parameter["Description"].split())
        default = str(parameter["Default"])
        yield name, f"`{default}`" if default else "none", re.sub(r"docs/([\w-]+\.md)", r"[\1](\1)", text)


def _transitions() -> str:
    rows = [f"| {' | '.join(each)} |" for each in map(_shown, TRANSITIONS)]
    return "\n".join(["| transition | by | from | to | sets | if |", "|---|---|---|---|---|---|", *rows])


def _shown(transition: Transition) -> tuple[str, ...]:
    """Return one transition as cells: what it sets, and on which condition, is read off its write."""
    write = transition.example(min(transition.before, key=_STATES.index))
    sets = "the row goes" if isinstance(write, Delete) else "the whole row"
    if isinstance(write, Update):
        names = sorted({*write.changes, *write.remove} - {"wake_shard"}, key=_ATTRIBUTES.index)
        sets = ", ".join(f"`{name}`" for name in names)
    given = ", ".join(f"`{name}`" for name in write.expect if name != "pk") or "no row"
    before, after = (", ".join(sorted(some, key=_STATES.index)) for some in (transition.before, transition.after))
    return transition.name, f"`{transition.by}`", before, after or "the same", sets, given


def _with_part(text: str, name: str, part: str) -> str:
    """Return *text* with what stands between the marks of a part exchanged."""
    marks = re.compile(rf"(<!-- {name}: .*? -->\n).*?(<!-- end -->)", re.DOTALL)
    return marks.sub(lambda found: f"{found[1]}{part}\n{found[2]}", text)


if __name__ == "__main__":
    for path, text in documents().items():
        (ROOT / path).write_text(text)

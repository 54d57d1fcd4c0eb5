"""Attribute names and key prefixes are known in one room: to rename one, a developer looks there alone."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LAYER = ROOT / "layers/tag_matching/python"
ROWS = LAYER / "tagcast/rows"
OF_ROWS = {"ABSENT", "Check", "Delete", "Expectation", "Key", "Put", "Table", "Update", "Value"}
"""What keys, rows and conditions are made of; of the core only ``tables``, ``ports`` and ``rows`` have it in hand."""
BY_NAME = {
    "tagcast_aws/store/dynamodb.py": "the adapter: keys of the tables, and the index of lanes to wake",
}
"""Exceptions, and why."""


def product(room: str) -> list[Path]:
    return [path for path in sorted((LAYER / room).rglob("*.py")) if str(path.relative_to(LAYER)) not in BY_NAME]


@cache
def prefixes() -> set[str]:
    """Every beginning of a key that ``rows`` writes: whatever stands before the first ``#`` of one of its texts."""
    texts = (
        node.value
        for path in ROWS.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    return {text.partition("#")[0] for text in texts if text.partition("#")[0].isupper() and "#" in text}


def knowledge(path: Path) -> Iterator[str]:
    """Yield what a module knows of how rows look."""
    begins = tuple(f"{prefix}#" for prefix in prefixes())
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module in ("tagcast.ports", "tagcast.tables"):
            yield from (f"imports {alias.name}" for alias in node.names if alias.name in OF_ROWS)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(begins):
            yield f"line {node.lineno}: the key {node.value}"
        if isinstance(node, ast.Subscript | ast.Call):
            yield from _attributes(node)


def _attributes(node: ast.Subscript | ast.Call) -> Iterator[str]:
    """Yield the attribute that an expression such as ``row["topic"]`` or ``row.get("topic")`` reads."""
    owner = node.value if isinstance(node, ast.Subscript) else node.func
    if isinstance(node, ast.Call):
        if not (isinstance(owner, ast.Attribute) and owner.attr == "get" and node.args):
            return
        owner, name = owner.value, node.args[0]
    else:
        name = node.slice
    of_a_row = isinstance(owner, ast.Name) and (owner.id.endswith("row") or owner.id in ("before", "after", "claim"))
    if of_a_row and isinstance(name, ast.Constant) and isinstance(name.value, str):
        yield f"line {node.lineno}: the attribute {name.value}"


CORE = [path for path in product("tagcast") if ROWS not in path.parents and path.name not in ("ports.py", "tables.py")]
ADAPTERS = product("tagcast_aws")


def test_the_core_outside_rows_knows_no_key_no_attribute_and_no_condition() -> None:
    assert {path: known for path in CORE if (known := list(knowledge(path)))} == {}


def test_adapters_know_no_row_but_for_those_that_say_why() -> None:
    known = {path: [each for each in knowledge(path) if not each.startswith("imports")] for path in ADAPTERS}
    assert {path: each for path, each in known.items() if each} == {}


def test_the_exceptions_are_there() -> None:
    assert {"MSG", "DUE", "LANES", "TOPIC", "SUB"} <= prefixes()
    assert all((LAYER / name).exists() and list(knowledge(LAYER / name)) for name in BY_NAME)

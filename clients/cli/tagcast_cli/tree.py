"""Explanations as coloured trees: why a subscription did or did not receive a message."""

from __future__ import annotations

from typing import Any

from rich.text import Text
from rich.tree import Tree
from tagcast_client.operation import Json

from tagcast_cli.instant import readable_instant
from tagcast_cli.screen import STATE_STYLES
from tagcast_cli.visible import visible_line

# The label of a node is its first field that LABELS names. Its result is its first field that VALUES names.
LABELS = ("text", "expression", "name", "kind")
VALUES = ("value", "verdict", "matched")


def _value_text(value: Any) -> Text:
    match value:
        case True:
            return Text("✓ true", style="green")
        case False:
            return Text("✗ false", style="red")
        case None:
            return Text("? unknown", style="yellow")
        case "skipped":
            return Text("– not reached", style="dim")
        case str():
            return Text(visible_line(value), style=STATE_STYLES.get(value, ""))
        case _:
            return Text(str(value))


def _field_text(name: str, value: Any) -> Text:
    label = Text(f"{name.replace('_', ' ')}: ", style="bold")
    if value is None and name not in VALUES:
        return label + Text("—", style="dim")
    if name.endswith("_at"):
        return label + Text(readable_instant(value))
    if isinstance(value, list):
        return label + Text(visible_line(", ".join(map(str, value))) or "—")
    return label + _value_text(value)


def _is_flat(value: Any) -> bool:
    return not isinstance(value, dict) and not (
        isinstance(value, list) and any(isinstance(item, dict | list) for item in value)
    )


def _node_text(node: Json, fallback: str) -> tuple[Text, set[str]]:
    """Return a node's line, and the names of the fields in it. Without a label the line begins with the first field."""
    label = next((name for name in LABELS if isinstance(node.get(name), str)), None)
    value = next((name for name in VALUES if name in node and _is_flat(node[name])), None)
    if label is None and not fallback and (first := next(iter(node), None)) is not None and _is_flat(node[first]):
        label, named = first, f"{first.replace('_', ' ')} {node[first]}"
    else:
        named = str(node[label]) if label else fallback.replace("_", " ")
    line = Text(visible_line(named), style="bold")
    if value is not None:
        line = line + Text("  ") + _value_text(node[value])
    if note := node.get("note"):
        line = line + Text(f"  ({visible_line(str(note))})", style="dim")
    return line, {name for name in (label, value, "note") if name}


def _grow(branch: Tree, name: str, value: Any) -> None:
    if name == "children" and not value:
        return
    if _is_flat(value):
        branch.add(_field_text(name, value))
    elif isinstance(value, dict):
        shown = {**value, "filter": "everything"} if value.get("filter", "") is None else value
        branch.children.append(explanation_tree(name, shown))
    elif name == "children":
        for child in value:
            _grow(branch, "", child)
    else:
        twig = branch.add(Text(name.replace("_", " "), style="bold"))
        for item in value:
            _grow(twig, "", item)


def explanation_tree(title: str, explanation: Json) -> Tree:
    """Return an explanation of any depth as a tree with the root *title*. Unknown fields are shown unchanged."""
    line, used = _node_text(explanation, title)
    root = Tree(line)
    for name, value in explanation.items():
        if name not in used:
            _grow(root, name, value)
    return root

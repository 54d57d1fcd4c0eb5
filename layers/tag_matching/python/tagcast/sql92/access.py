"""Which property texts an expression needs to be TRUE: what an index over many expressions can look up.

For every node two questions are answered from the leaves up, without recursion: what must hold for it to be TRUE,
and what must hold for it to be FALSE (so NOT only swaps the answers).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tagcast.sql92.dialect import Dialect
from tagcast.sql92.strict import constant_number
from tagcast.sql92.tree import Node

TEXT = "t"
NUMBER = "n"


class Key(NamedTuple):
    """A property that has this text, or (``sort`` = ``n``) a text that is this number."""

    sort: str
    name: str
    value: str


class Access(NamedTuple):
    """At least one of the keys holds whenever the node has the value; ``origin`` is the leaf that says only this."""

    keys: tuple[Key, ...]
    origin: int


Needs = tuple[Access | None, Access | None]
"""What TRUE needs and what FALSE needs."""


def access_of(nodes: Sequence[Node], dialect: Dialect, spread: Mapping[tuple[str, str], int]) -> Access | None:
    """The cheapest necessary condition of the root, or ``None``. ``spread`` counts the values of a property."""

    def cost(access: Access) -> float:
        return sum(1 / spread.get((key.sort, key.name), 1) for key in access.keys)

    strict = dialect is Dialect.STRICT
    needs: list[Needs] = []
    for place, node in enumerate(nodes):
        children = [needs[child] for child in node.children]
        match node.operator:
            case "not":
                needs.append((children[0][1], children[0][0]) if strict else (None, None))
            case "and":
                usable = len(children) if strict else _harmless_prefix(nodes, node) + 1
                every = [true for true, _ in children[:usable]]
                needs.append((_best(every, cost), _union([false for _, false in children])))
            case "or":
                needs.append((_union([true for true, _ in children]), _best([false for _, false in children], cost)))
            case _:
                needs.append(_leaf_needs(nodes, place, strict))
    return needs[-1][0]


def keys_of(nodes: Sequence[Node], dialect: Dialect) -> list[Key]:
    """All keys that leaves of an expression offer, to count the values of each property."""
    keys: list[Key] = []
    for place in range(len(nodes)):
        for access in _leaf_needs(nodes, place, dialect is Dialect.STRICT):
            keys.extend(access.keys if access is not None else ())
    return keys


def is_harmless(nodes: Sequence[Node], place: int) -> bool:
    """Whether a part of a rocketmq expression never fails, whatever the message."""
    pending = [place]
    while pending:
        node = nodes[pending.pop()]
        if node.operator in ("equal", "unequal"):
            if any(nodes[child].operator not in ("property", "text") for child in node.children):
                return False
        elif node.operator in ("less", "at_most", "greater", "at_least", "between", "not_between"):
            return False
        pending.extend(node.children)
    return True


def _harmless_prefix(nodes: Sequence[Node], node: Node) -> int:
    """How many operands of an AND, from the left, never fail: what stands behind one that fails is not reached."""
    count = 0
    while count < len(node.children) and is_harmless(nodes, node.children[count]):
        count += 1
    return count


def _leaf_needs(nodes: Sequence[Node], place: int, strict: bool) -> Needs:
    node = nodes[place]
    access: Access | None = None
    if node.operator in ("equal", "unequal"):
        access = _equality(nodes, place, strict)
    elif node.operator in ("in", "not_in"):
        assert isinstance(node.value, (tuple, list))
        name = str(nodes[node.children[0]].value)
        access = Access(tuple(Key(TEXT, name, text) for text in dict.fromkeys(node.value)), place)
    if node.operator in ("unequal", "not_in"):
        return None, access if strict else None
    return access, None


def _equality(nodes: Sequence[Node], place: int, strict: bool) -> Access | None:
    left, right = nodes[place].children
    if nodes[left].operator != "property":
        left, right = right, left
    if nodes[left].operator != "property":
        return None
    name = str(nodes[left].value)
    if nodes[right].operator == "text":
        return Access((Key(TEXT, name, str(nodes[right].value)),), place)
    number = constant_number(nodes, right) if strict else None
    return None if number is None else Access((Key(NUMBER, name, str(number)),), place)


def _best(choices: Sequence[Access | None], cost: Callable[[Access], float]) -> Access | None:
    return min((access for access in choices if access is not None), key=cost, default=None)


def _union(parts: Sequence[Access | None]) -> Access | None:
    keys: dict[Key, None] = {}
    for part in parts:
        if part is None:
            return None
        keys.update(dict.fromkeys(part.keys))
    return Access(tuple(keys), -1)

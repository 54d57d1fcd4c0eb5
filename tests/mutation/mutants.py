"""Mutants of the shipped modules: what would be changed where, and the text by which each is known."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from tests.mutation.operators import Change, changes_of

CORE = (
    "delivery.publishing",
    "delivery.fan_out",
    "pushing.batch_form",
    "pushing.content_formats",
    "pushing.push_slots",
    "concurrency.side_by_side",
    "pushing.engine",
    "delivery.lease",
    "delivery.redelivery",
    "delivery.lane_run",
    "delivery.cancelling",
    "delivery.filling",
    "operating.lanes",
    "repairing.sweep",
    "repairing.overdue",
    "repairing.expiry",
    "repairing.search",
    "concurrency.isolation",
    "repairing.relay",
    "concurrency.contention",
    "delivery.ending",
    "rows.message",
    "rows.message_transitions",
    "rows.ended_entries",
    "rows.codec",
    "rows.topic",
    "rows.subscription",
    "rows.values",
    "rows.lane",
    "rows.lane_transitions",
    "rows.due",
    "rows.listed",
    "rows.claim",
    "rows.state_map",
    "rows.stored",
    "rows.keys",
    "registry.directory",
    "registry.kept_subscriptions",
    "registry.subscriptions",
)
ADAPTERS = (
    "store.dynamodb",
    "store.conflicts",
    "store.stream",
    "dispatch.queue",
    "dispatch.workflow",
    "runtime.system",
    "runtime.telemetry",
    "endpoints.adapter",
    "endpoints.addresses",
    "endpoints.clients",
    "endpoints.function",
    "endpoints.guard",
    "endpoints.connection_faults",
    "endpoints.http",
    "endpoints.connector",
    "endpoints.pusher",
    "endpoints.resolver",
    "endpoints.sqs",
)
HANDLERS = ("archive", "fan_out", "relay", "retry", "sweep")
MODULES = (
    *(f"tagcast.{name}" for name in CORE),
    *(f"tagcast_aws.{name}" for name in ADAPTERS),
    *(f"functions.{name}.app" for name in HANDLERS),
)
ROOT = Path(__file__).resolve().parents[2]
TOP = "<module>"
SHOWN_MAX = 140


@dataclass(frozen=True)
class Mutant:
    """One change of one function of *module*; *old* and *new* are the text around the change, as Python would print it.

    *lines* are the lines of its statement in the shipped text, *place* the number of the change in the function.
    """

    module: str
    function: str
    operator: str
    old: str
    new: str
    lines: range
    place: int

    @property
    def key(self) -> str:
        return f"{self.module}:{self.function} | {self.old} -> {self.new}"


@cache
def path_of(module: str) -> Path:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)


@cache
def functions_of(module: str) -> dict[str, ast.AST]:
    """Return the functions and methods of *module* by qualified name, and the assignments of constants at its top."""
    tree = ast.parse(path_of(module).read_text())
    found: dict[str, ast.AST] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            methods = [inner for inner in node.body if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {f"{node.name}.{method.name}": method for method in methods}
    constants: list[ast.stmt] = [node for node in tree.body if isinstance(node, ast.Assign) and _is_number(node.value)]
    return {**found, TOP: ast.Module(constants, [])}


def _is_number(node: ast.expr) -> bool:
    parts = list(ast.walk(node))
    return any(isinstance(part, ast.Constant) and isinstance(part.value, int | float) for part in parts) and not any(
        isinstance(part, ast.Call | ast.Constant) and not isinstance(getattr(part, "value", None), int | float)
        for part in parts
    )


def mutants_of(module: str) -> Iterator[Mutant]:
    """Yield every mutant of *module*; of those with one key only the first."""
    keys: set[str] = set()
    for name, function in functions_of(module).items():
        parents = {child: parent for parent in ast.walk(function) for child in ast.iter_child_nodes(parent)}
        for place, change in enumerate(changes_of(function)):
            if name == TOP and change.operator not in ("constant", "arithmetic"):
                continue
            shown, statement = _shown(change.node, parents)
            mutant = Mutant(
                module,
                name,
                change.operator,
                _head(shown),
                _head_with(shown, change, parents),
                range(statement.lineno, _last_line(statement) + 1),
                place,
            )
            if mutant.key not in keys and mutant.old != mutant.new:
                keys.add(mutant.key)
                yield mutant


def mutated(mutant: Mutant) -> ast.AST:
    """Return the function of *mutant* with the change in it."""
    function = functions_of(mutant.module)[mutant.function]
    return _changed(function, list(changes_of(function))[mutant.place])


def sample(mutants: Sequence[Mutant], size: int, seed: int) -> list[Mutant]:
    """Return *size* of *mutants*: a key has the same luck whatever is changed elsewhere."""
    return sorted(mutants, key=lambda mutant: sha256(f"{seed} {mutant.key}".encode()).digest())[:size]


def _changed(root: ast.AST, change: Change) -> ast.AST:
    """Return a copy of *root* with the change in it."""
    place = next(place for place, node in enumerate(ast.walk(root)) if node is change.node)
    copied = deepcopy(root)
    target = next(node for at, node in enumerate(ast.walk(copied)) if at == place)
    if target is copied:
        return ast.fix_missing_locations(ast.copy_location(deepcopy(change.instead), target))
    for parent in ast.walk(copied):
        for name, value in ast.iter_fields(parent):
            if value is target:
                setattr(parent, name, ast.copy_location(deepcopy(change.instead), target))
            elif isinstance(value, list) and any(each is target for each in value):
                fresh = ast.copy_location(deepcopy(change.instead), target)
                setattr(parent, name, [fresh if each is target else each for each in value])
    return ast.fix_missing_locations(copied)


def _shown(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> tuple[ast.AST, ast.stmt | ast.ExceptHandler]:
    """Return as much around *node* as can be read in a line, and the statement (or handler) that it is in."""
    shown = node
    while not isinstance(node, ast.stmt | ast.ExceptHandler):
        node = parents[node]
        if isinstance(node, ast.expr | ast.stmt) and len(_head(node)) <= SHOWN_MAX:
            shown = node
    return shown, node


def _head(node: ast.AST) -> str:
    """Return a statement in one line, a compound one without its body."""
    text = ast.unparse(node)
    compound = hasattr(node, "body") and not isinstance(node, ast.ExceptHandler)
    lines = text.splitlines()
    return lines[0] if compound else " ".join(line.strip() for line in lines)


def _head_with(shown: ast.AST, change: Change, parents: Mapping[ast.AST, ast.AST]) -> str:
    """Return the head of *shown* with the change in it. The tree has the change only meanwhile: copies are slow."""
    if change.node is shown:
        return _head(change.instead)
    fields = vars(parents[change.node])
    shipped = dict(fields)
    for name, value in shipped.items():
        if value is change.node:
            fields[name] = change.instead
        elif isinstance(value, list):
            fields[name] = [change.instead if each is change.node else each for each in value]
    try:
        return _head(shown)
    finally:
        fields.update(shipped)


def _last_line(node: ast.stmt | ast.ExceptHandler) -> int:
    body = getattr(node, "body", None)
    if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
        return max(node.lineno, body[0].lineno - 1)
    return node.end_lineno or node.lineno

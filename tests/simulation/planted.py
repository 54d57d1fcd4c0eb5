"""Planted bugs for histories of the core: each is a known way to break a promise, and each must be caught."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from tagcast.model import Strategy

from tests.mutation.bugs import Bug, read_bugs
from tests.simulation.plan import Aim

TABLE = Path(__file__).with_name("planted.txt")
BUGS = read_bugs(TABLE)
READERS: dict[object, Callable[[str], Any]] = {
    tuple[str, ...]: lambda text: tuple(text.split(",")),
    bool: lambda _: True,
    float: float,
    float | None: float,
    int | None: int,
    Strategy | None: Strategy,
}
TYPES = {field.name: field.type for field in fields(Aim)}


def aim_of(bug: Bug) -> Aim:
    """Return the aim that is the section of *bug*.

    >>> aim_of(Bug("b", (), "faults=crash,stall; restless")) == Aim(("crash", "stall"), restless=True)
    True
    """
    told = [each.partition("=") for each in bug.section.split("; ") if each]
    return Aim(**{name: READERS[TYPES[name]](value) for name, _, value in told})

"""Garbage collections: on AWS a process looks through its own memory, here the interpreter through that of all."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NEVER = 2**31 - 1


@contextmanager
def of_the_young() -> Iterator[None]:
    """Look for garbage in what was made lately, as each process does, and never in all memory of all processes.

    A process that brings a message to a thousand endpoints by sockets looks through its youngest 119 times, the younger
    10 times, and never through all: there is not a quarter more of it than before. Among a hundred such processes that
    look takes a hundred times as long, and would count as computing of one of them: longer than a batch waits for an
    answer, so that its pushes would be late.
    """
    youngest, younger, all_ = gc.get_threshold()
    gc.set_threshold(youngest, younger, NEVER)
    try:
        yield
    finally:
        gc.set_threshold(youngest, younger, all_)

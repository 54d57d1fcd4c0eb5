"""Writes of a store before which something happens, as if another process had been faster, and throttled writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from tagcast.errors import TableThrottledError
from tagcast.ports import Key, Write

from tests.fakes.memory_store import MemoryStore


class RacedStore(MemoryStore):
    """Lets something happen once, in a thread of its own, before a row of a certain kind is written."""

    def __init__(self) -> None:
        super().__init__()
        self._kind = ""
        self._happening: Callable[[], object] | None = None

    def once_before(self, kind: str, happening: Callable[[], object]) -> None:
        """Call *happening* before the next write under a partition key that begins with *kind*."""
        self._kind, self._happening = kind, happening

    def transact(self, writes: Sequence[Write]) -> None:
        """Write all rows or none, a single one as well, after what has to happen before."""
        happening = self._happening
        if happening is not None and any(write.key.pk.startswith(self._kind) for write in writes):
            self._happening = None
            with ThreadPoolExecutor(1) as other:
                other.submit(happening).result()
        super().transact(writes)


@contextmanager
def throttled(store: MemoryStore, is_throttled: Callable[[Key], bool] = lambda key: True) -> Iterator[list[Write]]:
    """Throttle the writes of certain rows, and list these writes."""
    known, refused = store.transact, list[Write]()

    def transact(writes: Sequence[Write]) -> None:
        if found := [write for write in writes if is_throttled(write.key)]:
            refused.extend(found)
            raise TableThrottledError
        known(writes)

    store.transact = transact  # type: ignore[method-assign]
    try:
        yield refused
    finally:
        store.transact = known  # type: ignore[method-assign]

"""Stores in which another process is faster, an SDK repeats its writes, or the table throttles them."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from tagcast.errors import TableThrottledError
from tagcast.ports import Key, Row, Write

from tests.fakes.memory_store import MemoryStore


def elsewhere(happening: Callable[[], object]) -> None:
    """Let it happen in another process, as it were: a thread without this one's event loop."""
    with ThreadPoolExecutor(1) as other:
        other.submit(happening).result()


def watch_reads(store: MemoryStore) -> list[Key]:
    """Return a list that grows by the key of each row that is read by itself."""
    get, read = store.get, list[Key]()

    def watched(key: Key) -> Row | None:
        read.append(key)
        return get(key)

    store.get = watched  # type: ignore[method-assign]
    return read


class RacedStore(MemoryStore):
    """Lets something happen once, in a thread of its own, before a row of a certain kind is written."""

    def once_before(self, kind: str, happening: Callable[[], object]) -> None:
        """Call *happening* before the next write under a partition key that begins with *kind*."""

        def race(writes: Sequence[Write]) -> None:
            if any(write.key.pk.startswith(kind) for write in writes):
                self.before_transact = lambda writes: None
                elsewhere(happening)

        self.before_transact = race


class RepeatingStore(MemoryStore):
    """Makes every single write twice, as the SDK does after a lost answer. A transaction has a token and is made once.

    *meanwhile* happens between the two.
    """

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] = lambda: None

    def write(self, write: Write) -> None:
        super().write(write)
        self.meanwhile()
        super().write(write)


def before_the_next_transaction(store: MemoryStore, meanwhile: Callable[[], object]) -> None:
    def beaten(writes: Sequence[Write]) -> None:
        store.before_transact = lambda writes: None
        meanwhile()

    store.before_transact = beaten


@contextmanager
def throttled(store: MemoryStore, is_throttled: Callable[[Key], bool] = lambda key: True) -> Iterator[list[Write]]:
    """Throttle the writes of certain rows, and list these writes."""
    known, refused = store.transact, list[Write]()

    def transact(writes: Sequence[Write]) -> None:
        if found := [write for write in writes if is_throttled(write.key)]:
            refused.extend(found)
            raise TableThrottledError
        known(writes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "transact", transact)
        yield refused

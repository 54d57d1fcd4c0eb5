"""Caches whole lists of the API, so that pages can count and sort them, and runs requests concurrently."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Generic, TypeVar

from tagcast_client import AsyncPages, NotFoundError, TagcastError

A = TypeVar("A")
T = TypeVar("T")
SIDE_BY_SIDE_MAX = 8
"""A page sends at most 8 concurrent requests to the API."""
PAGE = 100
FRESH_S = 3.0
PATIENCE_S, PATIENCE_WITH_LAST_S, PATIENCE_WITH_OUTDATED_S = 0.2, 0.05, 2.0
"""How long a page waits for a running read: without an older result, with one, and after a change.

Then the page shows the available result.
"""


@dataclass(frozen=True)
class ListPage(Generic[T]):
    """One page of a list. *number* is the number of this page, and *total* is the number of items on all *pages*."""

    items: Sequence[T]
    number: int
    pages: int
    total: int


def part_of(items: Sequence[T], page: str, size: int) -> ListPage[T]:
    """Return page number *page* of *items*, each page with at most *size* items.

    If there is no such page, return the nearest; if *page* is not a number, the first.

    >>> part_of("abcde", "2", 2).items, part_of("abcde", "9", 2).number, part_of("", "x", 2).pages
    ('cd', 3, 1)
    """
    pages = max(1, -(-len(items) // size))
    number = min(max(1, int(page)), pages) if page.isascii() and page.isdigit() and len(page) < 9 else 1
    return ListPage(items[(number - 1) * size : number * size], number, pages, len(items))


@dataclass(frozen=True)
class ListReading(Generic[T]):
    """The items of a list, as read at *read_at*. If *is_whole* is False, the read has not reached the end of the list.

    If *is_outdated* is True, this console changed something after the read. *fault* is the error of a failed reload;
    empty if there was none.
    """

    items: tuple[T, ...]
    read_at: datetime
    is_whole: bool = True
    fault: str = ""
    is_outdated: bool = False


class CachedList(Generic[T]):
    """A list of the API, cached for *fresh_s* seconds. After that it is reloaded, while pages show the old items."""

    def __init__(self, listed: AsyncPages[T], fresh_s: float = FRESH_S) -> None:
        self._listed = listed
        self._fresh_s = fresh_s
        self._last: ListReading[T] | None = None
        self._read_s = -math.inf
        self._changed_s = -math.inf
        self._task: asyncio.Task[None] | None = None
        self._fault: TagcastError | None = None

    async def look(self) -> ListReading[T]:
        """Return the last complete list. During the first read, return the items read up to now.

        Raises TagcastError if the first read failed.
        """
        now_s = time.monotonic()
        until_s = now_s + self._patience_s()
        if self._task is None and (self._is_outdated() or now_s - self._read_s >= self._fresh_s):
            self._task = asyncio.create_task(self._read())
        while (task := self._task) is not None and (left_s := until_s - time.monotonic()) > 0:
            await asyncio.wait({task}, timeout=left_s)
            if self._task is None and self._is_outdated() and self._fault is None:
                self._task = asyncio.create_task(self._read())
        if self._last is None:
            if self._fault is not None:
                raise self._fault
            return ListReading((), datetime.now(UTC), is_whole=False)
        return replace(self._last, is_outdated=self._is_outdated())

    async def look_if_possible(self) -> tuple[T, ...]:
        """Return the items of `look`; no items if the API refuses the list or fails.

        Pages use this method for parts that they can omit. The API refuses the lists of all topics and of all lanes to
        a caller who has rights for some topics only.
        """
        try:
            return (await self.look()).items
        except TagcastError:
            return ()

    def _patience_s(self) -> float:
        if self._is_outdated():
            return PATIENCE_WITH_OUTDATED_S
        return PATIENCE_WITH_LAST_S if self._last is not None and self._last.is_whole else PATIENCE_S

    def _is_outdated(self) -> bool:
        """Return whether this console changed something after the last read began."""
        return self._read_s < self._changed_s

    def forget(self) -> None:
        """Mark the list as outdated, after a change from this console. The next `look` reads the list again."""
        self._changed_s = time.monotonic()

    async def stop(self) -> None:
        """Stop a running read."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _read(self) -> None:
        began_s, began_at = time.monotonic(), datetime.now(UTC)
        found: list[T] = []
        cursor: str | None = None
        is_first, self._fault = self._last is None or not self._last.is_whole, None
        try:
            while True:
                page = await self._listed.page(cursor)
                found += page.items
                cursor = page.next_cursor
                if cursor is None:
                    break
                if is_first:
                    self._last = ListReading(tuple(found), began_at, is_whole=False)
            self._last = ListReading(tuple(found), began_at)
        except TagcastError as fault:
            self._fault, began_s = fault, -math.inf
            if self._last is not None:
                self._last = ListReading(self._last.items, self._last.read_at, self._last.is_whole, str(fault))
        finally:
            self._read_s, self._task = began_s, None


async def together(ask: Callable[[A], Awaitable[T]], about: Iterable[A], most: int = SIDE_BY_SIDE_MAX) -> list[T]:
    """Call *ask* with each item of *about*, at most *most* calls at the same time. Return the results in order.

    A coroutine is created only when it can start, because Python warns about coroutines that are never awaited.
    """
    places = asyncio.Semaphore(most)

    async def ask_one(each: A) -> T:
        async with places:
            return await ask(each)

    return list(await asyncio.gather(*map(ask_one, about)))


async def none_if_missing(question: Awaitable[T]) -> T | None:
    """Await *question*, a request to the API, and return its result. Return None if the resource does not exist."""
    try:
        return await question
    except NotFoundError:
        return None

"""Lists that are read page by page."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar

Page = TypeVar("Page")
PAGES_MAX = 1_000


def pages(read: Callable[[Any], Page], cursor_of: Callable[[Any], object] = attrgetter("cursor")) -> list[Page]:
    """Read the first page, which has no cursor, and each that the one before leads to."""
    found = [read(None)]
    while (cursor := cursor_of(found[-1])) is not None:
        found.append(read(cursor))
        assert len(found) < PAGES_MAX, "the list has no end"
    return found

"""Makes the synchronous client from the asynchronous one: `python clients/python/make_sync.py` writes it anew."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent / "tagcast_client"
FILES = {
    "async_client.py": "client.py",
    "async_connection.py": "connection.py",
    "async_consumer.py": "consumer.py",
    "async_deduplication.py": "deduplication.py",
    "async_groups.py": "client_groups.py",
    "async_lanes.py": "client_lanes.py",
    "async_subscriptions.py": "subscriptions.py",
    "async_tail.py": "client_tail.py",
}
WORDS = {
    "The asynchronous client; `client` is made from this file by `make_sync.py`.": (
        "The synchronous client, made from `async_client` by `make_sync.py`: change that file, not this one."
    ),
    "The asynchronous connection; `connection` is made from this file by `make_sync.py`.": (
        "The synchronous connection, made from `async_connection` by `make_sync.py`: change that file, not this one."
    ),
    "What the asynchronous client does with lanes; `client_lanes` is made from this file by `make_sync.py`.": (
        "What the synchronous client does with lanes, made from `async_lanes` by `make_sync.py`: change that file."
    ),
    "What the asynchronous client does with groups; `client_groups` is made from this file by `make_sync.py`.": (
        "What the synchronous client does with groups, made from `async_groups` by `make_sync.py`: change that file."
    ),
    "How the asynchronous client watches; `client_tail` is made from this file by `make_sync.py`.": (
        "How the synchronous client watches, made from `async_tail` by `make_sync.py`: change that file."
    ),
    "async_tail": "client_tail",
    "AsyncWatching": "Watching",
    "async_groups": "client_groups",
    "AsyncGroups": "Groups",
    "The asynchronous consumer; `consumer` is made from this file by `make_sync.py`.": (
        "The synchronous consumer, made from `async_consumer` by `make_sync.py`: change that file, not this one."
    ),
    "AsyncConsumer": "Consumer",
    "Asynchronous deduplication; `deduplication` is made from this file by `make_sync.py`.": (
        "Synchronous deduplication, made from `async_deduplication` by `make_sync.py`: change that file, not this one."
    ),
    "AsyncSeenStore": "SeenStore",
    "AsyncMemoryStore": "MemoryStore",
    "AsyncDeduplicator": "Deduplicator",
    "asynccontextmanager": "contextmanager",
    "asyncio_tasks": "threads",
    "AsyncTasks": "Tasks",
    "AsyncSlots": "Slots",
    "async_client": "client",
    "async_lanes": "client_lanes",
    "AsyncLanes": "Lanes",
    "The asynchronous client's subscriptions; `subscriptions` is made from this file by `make_sync.py`.": (
        "The synchronous client's subscriptions, made from `async_subscriptions` by `make_sync.py`: change that file."
    ),
    "async_connection": "connection",
    "async_subscriptions": "subscriptions",
    "AsyncSubscriptions": "Subscriptions",
    "AsyncConnection": "Connection",
    "AsyncIterator": "Iterator",
    "AsyncPages": "Pages",
    "__aiter__": "__iter__",
    "Awaitable[Page[T]]": "Page[T]",
    "AsyncBaseTransport": "BaseTransport",
    "AsyncClient": "Client",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "aclose": "close",
    "import asyncio\n": "",
    "asyncio.sleep": "time.sleep",
    "Awaitable[object]": "object",
    "Awaitable, ": "",
    "await ": "",
    "async def ": "def ",
    "async for ": "for ",
}


def synchronous(source: str) -> str:
    """Return the synchronous form of an asynchronous module.

    >>> synchronous("async def f(c: AsyncClient): return await c.aclose()")
    'def f(c: Client): return c.close()'
    """
    pattern = re.compile("|".join(re.escape(word) for word in WORDS))
    text = pattern.sub(lambda found: WORDS[found.group()], source)
    names = re.search(r"^from collections\.abc import (.+)$", text, re.MULTILINE)
    if names is None:
        return text
    ordered = ", ".join(sorted(names.group(1).split(", ")))
    return text.replace(names.group(1), ordered, 1)


def formatted(source: str) -> str:
    """Return *source* in the house style, its imports in order."""
    for command in (("check", "--select", "I", "--fix", "--quiet"), ("format",)):
        asked = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(HERE / "client.py"), "-"]
        source = subprocess.run(asked, input=source, capture_output=True, text=True, check=True).stdout
    return source


def made_from(source: Path) -> str:
    """Return the synchronous form of a file."""
    return formatted(synchronous(source.read_text()))


if __name__ == "__main__":
    for source, target in FILES.items():
        (HERE / target).write_text(made_from(HERE / source))

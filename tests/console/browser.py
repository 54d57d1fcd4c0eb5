"""A real browser, and a console for it to look at."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from local.console.__main__ import desk_for
from local.console.server import ConsoleServer

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
READY_S = 30.0


def executable() -> str:
    """Return where an installed Chromium is. Raises FileNotFoundError, which says how to get one."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        raise FileNotFoundError("no Chromium is installed: `sudo apt-get install chromium`, or put one into the PATH")
    return found


@contextmanager
def browser() -> Iterator[Browser]:
    """Start the installed Chromium, without a window."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        try:
            yield chromium
        finally:
            chromium.close()


@contextmanager
def serving(api_url: str, reports: Path) -> Iterator[str]:
    """Serve a console in a thread of its own; gives its address, without the slash at the end."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(_started(api_url, reports))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server.url.rstrip("/")
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(READY_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(READY_S)
        loop.close()


async def _started(api_url: str, reports: Path) -> ConsoleServer:
    server = ConsoleServer(desk_for(api_url, None, None, reports))
    await server.start(0)
    return server

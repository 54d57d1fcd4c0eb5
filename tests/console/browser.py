"""A real browser, and where the console is that it looks at."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.running_stack import RunningStack

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


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


def settle(page: Page) -> None:
    """Wait until a page has what it asks for by itself; only a tail goes on asking without end."""
    page.wait_for_load_state("load")
    expect(page.locator(".htmx-request:not(#tail)")).to_have_count(0)


def console_of(stack: RunningStack) -> str:
    """Return where the console of a stack is that was started with ``--console-port``."""
    found = re.search(r"Console +(http://127\.0\.0\.1:[0-9]+)/", stack.output)
    assert found is not None, stack.output
    return found.group(1)

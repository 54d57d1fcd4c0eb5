"""Pictures of the console for the documents: `make pictures`, or `python -m tests.console.pictures FOLDER --all`."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple

from playwright.sync_api import Browser

from tests.console.browser import browser, console_of, settle
from tests.console.scene import Scene, played
from tests.running_stack import start_stack

FOLDER = Path(__file__).resolve().parents[2] / "docs/images"
Scheme = Literal["light", "dark"]
WIDTHS: tuple[int, ...] = (400, 1_600)
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
FAULT = "fault"
"""The one page that is pictured because something is not there."""


class Look(NamedTuple):
    """How wide a window is, and which colours its reader prefers."""

    width: int
    scheme: Scheme


def pages(scene: Scene) -> Mapping[str, str]:
    """Return what is pictured in the documents, by name."""
    return {
        "overview": "/",
        "lane": "/topics/orders/subscriptions/billing",
        "message": f"/topics/orders/messages/{scene.ordered[1]}?why=warehouse",
        "topic": "/topics/orders",
        "filters": "/workbench?topic=orders&subscription=warehouse&properties=price%3D80%0Aregion%3Deu",
    }


def others(scene: Scene) -> Mapping[str, str]:
    """Return the other pages, which are only looked at."""
    return {
        "shadow": "/topics/orders/subscriptions/warehouse/shadow",
        "skip": "/topics/orders/subscriptions/billing/skip",
        "search": "/search?topic=orders&tag=paid",
        "tail": "/tail?topic=orders",
        "archive": "/archive",
        "job": "/archive/job?job=audit&topic=orders",
        "groups": "/groups",
        "hosts": "/hosts",
        "costs": "/costs",
        "hostile": f"/topics/orders/messages/{scene.hostile}?why=billing",
        FAULT: "/topics/absent",
    }


def take(folder: Path, every: bool) -> None:
    """Play the scene on a stack of its own and picture its pages: five, or all of them in every look."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as ends:
        state = ends.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        stack = start_stack(Path(state, "data"), "--console-port", "0")
        ends.callback(stack.stop)
        scene = ends.enter_context(played(stack.url))
        console = console_of(stack)
        chromium = ends.enter_context(browser())
        if every:
            for width, scheme in product(WIDTHS, SCHEMES):
                _picture(chromium, Look(width, scheme), console, {**pages(scene), **others(scene)}, folder)
        else:
            _picture(chromium, None, console, pages(scene), folder)


def _picture(chromium: Browser, look: Look | None, console: str, shown: Mapping[str, str], folder: Path) -> None:
    """Picture pages: in a look all of each and under its name, else what a document shows."""
    width, scheme = look or Look(1_200, "light")
    page = chromium.new_page(viewport={"width": width, "height": 760}, color_scheme=scheme)
    for name, path in shown.items():
        answer = page.goto(console + path)
        if answer is None or answer.ok != (name != FAULT):
            raise RuntimeError(f"{name}: {path} was answered with {answer and answer.status}")
        settle(page)
        suffix = f"-{width}-{scheme}" if look else ""
        page.screenshot(path=folder / f"{name}{suffix}.png", full_page=look is not None)
    page.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument("--all", action="store_true", help="all pages, narrow and wide, dark and light")
    asked = parser.parse_args()
    take(asked.folder, asked.all)

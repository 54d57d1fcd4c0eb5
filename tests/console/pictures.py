"""Pictures of the console: `make pictures` for the documents, `python -m tests.console.pictures FOLDER --all` for all.

``--all --worst`` takes them of the worst day, with the widest data.
"""

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Literal, NamedTuple

from playwright.sync_api import Browser, expect
from tagcast_client import Client

from tests.console import worst_day
from tests.console.browser import browser, console_of, settle
from tests.console.scene import Scene, played
from tests.console.worst_data import widest_played
from tests.console.worst_day import FIRST, NOWHERE, WIDE_TOPIC, WorstDay
from tests.running_stack import start_stack, wait_until

FOLDER = Path(__file__).resolve().parents[2] / "docs/images"
Scheme = Literal["light", "dark"]
WIDTHS: tuple[int, ...] = (360, 400, 1_000, 1_600)
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
HEIGHT_MAX = 6_000
"""Of longer pages the beginning is pictured."""
READ_MS = 30_000
"""What is read beside a page, such as the backlogs of lanes, is in its place when it is read again."""
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
        "topics": "/topics",
        "new-topic": "/new-topic",
        "subscribe": "/topics/orders/subscribe",
        "edit": "/topics/orders/subscriptions/billing/edit",
        "charts": "/topics/orders/charts",
        "pause-many": "/bulk/pause?topic=orders",
        "again": f"/topics/orders/messages/{scene.ordered[1]}/again?to=mailer",
        "search": "/search?topic=orders&tag=paid",
        "history": "/topics/orders/history?tag=paid",
        "tail": "/tail?topic=orders",
        "archive": "/archive",
        "job": "/archive/job?job=audit&topic=orders",
        "groups": "/groups",
        "hosts": "/hosts",
        "costs": "/costs",
        "hostile": f"/topics/orders/messages/{scene.hostile}?why=billing",
        FAULT: "/topics/absent",
    }


def worst_pages(day: WorstDay, widest: Mapping[str, str]) -> Mapping[str, str]:
    first = f"/topics/{FIRST}"
    return {
        "overview": "/",
        "overview-host": f"/?host={NOWHERE.rstrip('/')}",
        "overview-last": "/?page=99",
        "topics": "/topics",
        "topic": first,
        "topic-wide": f"/topics/{WIDE_TOPIC}",
        "lane-down": f"{first}/subscriptions/partner-api",
        "lane-pending": f"{first}/subscriptions/newcomer",
        "lane-group": f"{first}/subscriptions/workers",
        "verify": f"{first}/subscriptions/newcomer/verify",
        "edit": f"{first}/subscriptions/billing/edit",
        "subscribe": f"{first}/subscribe",
        "charts": f"{first}/charts",
        "pause-many": f"/bulk/pause?host={NOWHERE.rstrip('/')}",
        "again": f"{first}/messages/{day.ordinary}/again?to=mailer",
        "message-wide": f"/topics/{WIDE_TOPIC}/messages/{day.wide}",
        "message-ordinary": f"{first}/messages/{day.ordinary}?why=warehouse",
        "message-hostile": f"{first}/messages/{day.hostile}?why=partner-api",
        "workbench": f"/workbench?topic={FIRST}&subscription=warehouse",
        "search": f"/search?topic={FIRST}",
        "history": f"/topics/{FIRST}/history",
        "tail": f"/tail?topic={FIRST}",
        "groups": "/groups",
        "hosts": "/hosts",
        "archive": "/archive",
        "costs": "/costs",
        FAULT: "/topics/absent",
        **widest,
    }


def take_worst(folder: Path) -> None:
    """Play the worst day on a stack of its own and picture its pages in every look."""
    with ExitStack() as ends:
        console, url = ends.enter_context(_stack())
        day = ends.enter_context(worst_day.played(url))
        api = ends.enter_context(Client(url))
        widest = widest_played(api, str({**api.get_subscription(WIDE_TOPIC, "device-0000").endpoint}["url"]))
        chromium = ends.enter_context(browser())
        for width, scheme in product(WIDTHS, SCHEMES):
            _picture(chromium, Look(width, scheme), console, worst_pages(day, widest), folder)


@contextmanager
def _stack() -> Iterator[tuple[str, str]]:
    """Start a stack with a console; where both are."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as state,
        start_stack(Path(state, "data"), "--console-port", "0") as stack,
    ):
        assert wait_until(lambda: "Console" in stack.output)
        yield console_of(stack), stack.url


def take(folder: Path, every: bool) -> None:
    """Play the scene on a stack of its own and picture its pages: five, or all of them in every look."""
    with ExitStack() as ends:
        console, url = ends.enter_context(_stack())
        scene = ends.enter_context(played(url))
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
        expect(page.locator("main")).not_to_contain_text("Loading", timeout=READ_MS)
        expect(page.locator(".lanes td").get_by_text("…", exact=True)).to_have_count(0, timeout=READ_MS)
        suffix = f"-{width}-{scheme}" if look else ""
        is_short = page.evaluate("document.documentElement.scrollHeight") < HEIGHT_MAX
        page.screenshot(path=folder / f"{name}{suffix}.png", full_page=look is not None and is_short)
    page.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument("--all", action="store_true", help="all pages, narrow and wide, dark and light")
    parser.add_argument("--worst", action="store_true", help="of the worst day")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.worst:
        take_worst(asked.folder)
    else:
        take(asked.folder, asked.all)

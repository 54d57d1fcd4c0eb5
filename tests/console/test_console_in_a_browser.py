"""The console in a real browser, before a stack on which a shop is in trouble."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import pytest
from playwright.sync_api import Browser, Page, Response, Route, expect
from tagcast_client import AsyncClient, Client

from local.console.archive_jobs import JobBoard, LocalJobs
from local.console.desk import Desk
from local.console.server import ConsoleServer
from tests.console.browser import browser, console_of, settle
from tests.console.pictures import WIDTHS, others, pages
from tests.console.scene import Scene, played
from tests.console.worst_data import widest_played
from tests.running_stack import start_stack, wait_until
from tests.tenth import of_this_commit
from tests.unit.console.test_archive_jobs import STACK
from tests.unit.console.visitor import faking_jobs

pytestmark = pytest.mark.e2e
AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
BYTES_MAX = 300_000
PATIENCE_MS = 20_000
T = TypeVar("T")
expect.set_options(timeout=PATIENCE_MS)


@dataclass
class Window:
    """A page of the browser, and what it came across: requests to others, complaints, and how much it loaded."""

    page: Page
    console: str
    scene: Scene
    api: Client
    foreign: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    loaded: int = 0

    def __post_init__(self) -> None:
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda fault: self.complaints.append(str(fault)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        self.page.on("response", self._came)

    def _came(self, response: Response) -> None:
        if not response.url.startswith(self.console):
            self.foreign.append(response.url)
        elif response.status < 300:
            self.loaded += int(response.headers.get("content-length", "0"))

    def open(self, path: str) -> Page:
        self.page.goto(self.console + path)
        return self.page

    def violations(self) -> list[tuple[str, list[str]]]:
        """What axe has against the page, with the elements."""
        self.page.evaluate(AXE)
        found: dict[str, Any] = self.page.evaluate(
            "axe.run(document, {resultTypes: ['violations'], rules: {'target-size': {enabled: true}}})"
        )
        return [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]]

    def state(self, topic: str, name: str) -> tuple[str, int]:
        lane = self.api.get_subscription(topic, name).lane
        assert lane is not None
        return lane.state, lane.backlog


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, str, Scene, Client]]:
    folder = tmp_path_factory.mktemp("console")
    with start_stack(folder / "data", "--console-port", "0") as running:
        (folder / "data/reports/audit").mkdir(parents=True)
        (folder / "data/reports/audit/day.html").write_text("<!doctype html><title>Certificate</title>certificate")
        assert wait_until(lambda: "Console" in running.output)
        with played(running.url) as scene, browser() as chromium, Client(running.url) as api:
            yield chromium, console_of(running), scene, api


@pytest.fixture
def window(opened: tuple[Browser, str, Scene, Client]) -> Iterator[Window]:
    chromium, console, scene, api = opened
    page = chromium.new_page(viewport={"width": 1_600, "height": 900})
    window = Window(page, console, scene, api)
    yield window
    page.close()
    assert window.foreign == []
    assert window.complaints == []


def part_of(shown: list[T], halves: int) -> list[T]:
    """Return the half that the commit chooses, or both."""
    return shown if halves == 2 else shown[of_this_commit() % 2 :: 2]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("halves", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_every_page_passes_axe_fits_and_asks_nobody_else(window: Window, halves: int) -> None:
    """Axe sees half of the pages, in turns wide and light or narrow and dark; every night it sees all both ways."""
    page, shown = window.page, list({**pages(window.scene), **others(window.scene)}.values())
    for number, path in enumerate(part_of(shown, halves)):
        window.loaded = 0
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 1_600, "height": 900})
        window.open(path)
        settle(page)
        assert window.loaded < BYTES_MAX, path
        if halves == 2 or number % 2:
            assert window.violations() == [], path
        page.emulate_media(color_scheme="dark")
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, path
        if halves == 2 or not number % 2:
            assert window.violations() == [], path
        window.complaints = [said for said in window.complaints if "404" not in said or path != "/topics/absent"]


def test_from_the_overview_it_takes_at_most_four_clicks_to_know_why(window: Window) -> None:
    page, scene = window.page, window.scene
    second = scene.ordered[1]

    window.open("/")
    billing = page.get_by_role("row").filter(has_text="orders / billing")
    billing.get_by_role("link", name=f"…{scene.ordered[0][-6:]} head").click()
    expect(page.locator("#why")).to_contain_text("Explanation: billing did not get this message")
    expect(page.locator("#why")).to_contain_text("its filter matched; the delivery is blocked (http 500)")

    window.open("/")
    page.get_by_role("link", name="orders", exact=True).click()
    page.get_by_role("link", name=second).click()
    page.get_by_role("link", name="Explain warehouse").click()
    expect(page.locator("#why")).to_contain_text("its filter did not match")
    expect(page.locator("#why .tree")).to_contain_text("price is '30'")

    window.open("/")
    page.get_by_role("textbox", name="Message id").fill(second)
    page.get_by_role("button", name="Find").click()
    page.get_by_role("link", name="Explain warehouse").click()
    expect(page.locator("#why")).to_contain_text("its filter did not match")


def test_hostile_content_is_seen_and_does_nothing(window: Window) -> None:
    page = window.open(f"/topics/orders/messages/{window.scene.hostile}")

    expect(page.locator("pre.body")).to_contain_text(
        "<script>document.title = 'owned'</script>\\x1b]0;owned\\x07 \\u202e"
    )
    assert page.title() == f"Message {window.scene.hostile} · tagcast"
    assert page.locator("main img, main script").count() == 0


def test_a_lane_is_retried_paused_resumed_and_skipped_by_the_keyboard_alone(window: Window) -> None:
    page, keys = window.page, window.page.keyboard
    lane = "/topics/orders/subscriptions/billing"

    def go(name: str) -> None:
        """Walk to what has this name, and use it."""
        for _ in range(60):
            keys.press("Tab")
            if page.evaluate("document.activeElement.textContent.trim()") == name:
                with page.expect_navigation():
                    keys.press("Enter")
                return
        pytest.fail(f"the keyboard does not reach {name}")

    window.open(lane)
    go("Retry")
    expect(page.locator("main")).to_contain_text("Attempt 2 of message")
    go("Retry")
    expect(page.get_by_role("status")).to_contain_text("attempted now")
    go("Pause")
    go("Pause")
    expect(page.get_by_role("status")).to_contain_text("paused")
    go("Resume")
    go("Resume")
    expect(page.get_by_role("status")).to_contain_text("resumed")
    head = window.scene.ordered[0]
    go("Skip")
    expect(page.get_by_label("Reason")).to_be_focused()
    keys.type("the order was withdrawn")
    keys.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("skipped")
    entry = window.api.get_message("orders", head).subscribers["billing"]
    assert (entry.state, entry.last_outcome) == ("cancelled", "skipped: the order was withdrawn")


def test_a_verdict_changes_while_a_filter_is_typed_and_it_is_shadowed_promoted_and_saved(window: Window) -> None:
    page = window.open("/workbench?topic=orders&subscription=mailer")
    verdicts = page.locator("#verdicts")

    page.get_by_label("Kind").select_option("sql92")
    text = page.get_by_role("textbox", name="Text")
    text.fill("price > 100")
    expect(verdicts.locator("summary").filter(has_text="price=120").first).to_contain_text(re.compile("^ *matched"))
    text.fill("price > ")
    expect(verdicts.get_by_role("alert")).to_contain_text("/filter/expression")
    text.fill("price > 20")
    expect(verdicts.locator("summary").filter(has_text="price=30").first).to_contain_text(re.compile("^ *matched"))
    page.get_by_role("button", name="Shadow").click()
    expect(page.locator("h1")).to_have_text("Shadow of mailer")
    page.get_by_role("link", name="Promote").click()
    page.get_by_role("button", name="Promote").click()
    expect(page.get_by_role("status")).to_contain_text("The shadow is now the active filter.")
    page.get_by_role("link", name="update filter").click()
    page.get_by_label("Kind").select_option("tags")
    page.get_by_role("textbox", name="Text").fill("paid")
    page.get_by_role("button", name="Update filter").click()
    page.get_by_role("button", name="Update").click()
    expect(page.get_by_role("status")).to_contain_text("The filter is updated.")
    assert window.api.get_subscription("orders", "mailer").filter == {"kind": "tags", "tags": ["paid"]}


def test_what_is_published_searched_and_retried_in_the_browser_happens(window: Window) -> None:
    page = window.open("/topics/payments")
    page.get_by_label("Body", exact=True).fill("paid 18")
    page.get_by_label("Properties").fill("amount=30")
    page.get_by_role("button", name="Publish").click()
    expect(page.locator("main")).to_contain_text("amount=30")
    window.open("/search?topic=quotes")
    page.get_by_role("link", name="Retry results").click()
    expect(page.locator("main")).to_contain_text("ticker")
    page.get_by_role("button", name="Retry 1 lane").click()
    expect(page.get_by_role("status")).to_contain_text("Done: 1 lane")
    window.open("/archive")
    page.get_by_role("link", name="Certificate").click()
    expect(page.locator("body")).to_have_text("certificate")


def test_the_tail_shows_what_happens_as_it_happens_until_it_is_paused(window: Window) -> None:
    page = window.open("/tail?topic=quotes&state=accepted")
    rows = page.locator("#tail tbody tr")
    wait_until(lambda: bool(window.api.publish("quotes", "EURUSD 1.0846")) and rows.count() > 0)
    last = window.api.publish("quotes", "EURUSD 1.0847").message_id

    expect(rows.first).to_contain_text(last)
    page.get_by_label("State").select_option("blocked")
    page.get_by_role("button", name="Watch").click()
    expect(rows.first).to_contain_text("waiting")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#tail")).to_contain_text("Paused.")
    assert page.locator("#tail").get_attribute("hx-get") is None
    window.open("/topics/quotes")
    expect(page.locator("#tail")).to_contain_text(last)
    assert wait_until(lambda: "published" in window.open("/topics/quotes").locator(".facts").inner_text())


@contextmanager
def console_with_small_jobs(folder: Path, api: str) -> Iterator[str]:
    """Serve a console whose jobs are small programs; nothing else of it is another."""
    folder.joinpath("stack.json").write_text(json.dumps(STACK))
    loop = asyncio.new_event_loop()
    jobs = JobBoard(LocalJobs(folder, faking_jobs(folder / "reports")))
    server = ConsoleServer(Desk(AsyncClient(api), folder / "reports", jobs))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(0), loop).result()
        yield server.url.rstrip("/")
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_job_is_started_from_its_page_watched_and_read(window: Window, tmp_path: Path) -> None:
    with console_with_small_jobs(tmp_path, window.api.url) as console:
        window.console, page = console, window.page
        for topic, said in (("broken", "no> such day"), ("orders", "No violations in 12 audited deliveries.")):
            window.open("/archive")
            page.get_by_label("Topic (empty: all topics)").fill(topic)
            page.get_by_role("button", name="Start …").click()
            expect(page.locator("main")).to_contain_text(f"of {topic}")
            page.get_by_role("button", name="Start").click()
            expect(page.locator("#job")).to_contain_text(said)
            assert window.violations() == []
        page.get_by_role("link", name="Open report").click()
        expect(page.locator("body")).to_contain_text("--topic orders")


def test_a_page_is_read_again_in_its_place(window: Window) -> None:
    page = window.open("/topics/orders/subscriptions/search-index")
    expect(page.locator("#age-words")).to_contain_text("refreshes every 3 s")
    before = page.locator("#read-at").get_attribute("datetime")
    page.get_by_role("link", name="update filter").focus()
    page.evaluate("document.querySelector('#backlog-title').dataset.keptNode = 'yes'; scrollTo(0, 120)")
    sent = window.api.publish("orders", "one more").message_id

    expect(page.locator(f"#due-{sent}")).to_be_attached()
    assert page.locator("#read-at").get_attribute("datetime") != before
    assert page.evaluate("document.activeElement.textContent") == "update filter"
    assert page.evaluate("document.querySelector('#backlog-title').dataset.keptNode") is None, (
        "attributes are read, too"
    )
    assert page.evaluate("scrollY") == 120
    page.get_by_role("button", name="Hold").click()
    expect(page.locator("#age-words")).to_contain_text("held")


def test_a_held_page_and_a_selected_text_stay_as_they_are_in_all_parts(window: Window) -> None:
    page = window.open("/topics/quotes")
    tail = page.locator("#tail")
    wait_until(lambda: bool(window.api.publish("quotes", "EURUSD 1.0848")) and tail.locator("tbody tr").count() > 0)
    page.get_by_role("button", name="Hold").click()
    second = window.api.publish("quotes", "EURUSD 1.0849").message_id
    page.wait_for_timeout(2_500)
    expect(tail).not_to_contain_text(second)
    page.get_by_role("button", name="Hold").click()
    expect(tail).to_contain_text(second, timeout=3_000)
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#tail tbody tr'))")
    third = window.api.publish("quotes", "EURUSD 1.0850").message_id
    page.wait_for_timeout(2_500)
    expect(tail).not_to_contain_text(third)
    page.evaluate("getSelection().removeAllRanges()")
    expect(tail).to_contain_text(third, timeout=3_000)


def test_a_page_that_was_busy_is_read_less_often_once_it_is_calm(window: Window) -> None:
    reads = 0

    def busy_at_first(route: Route) -> None:
        nonlocal reads
        reads += 1
        read = route.fetch()
        route.fulfill(
            response=read, body=read.text().replace('data-live="10"', f'data-live="{1 if reads == 1 else 10}"')
        )

    window.page.route(re.compile("/groups$"), busy_at_first)
    page = window.open("/groups")
    expect(page.locator("#age-words")).to_contain_text("refreshes every 10 s")
    page.wait_for_timeout(3_000)
    assert reads == 2


def test_an_explanation_leaves_the_list_of_subscriptions_as_it_is_and_the_way_back_leads_to_it(window: Window) -> None:
    page = window.open(f"/topics/orders/messages/{window.scene.ordered[1]}?state=not+for+it")
    rows, title = page.locator("[aria-labelledby=subscription_rows-title] tbody tr"), page.locator("#why-title")
    unmatched = rows.count()
    page.get_by_role("link", name="Explain warehouse").click()
    expect(title).to_contain_text("warehouse did not get this message")
    page.get_by_label("Subscription", exact=True).fill("billing")
    page.get_by_role("button", name="Explain").click()
    expect(title).to_contain_text("billing")
    with page.expect_response(lambda read: "x-refresh" in read.request.headers):
        pass
    expect(page.locator("#age-words")).to_contain_text(re.compile("· [01] s ago"))
    assert rows.count() == unmatched
    page.go_back()
    expect(title).to_contain_text("warehouse")
    page.get_by_role("button", name="Hold").click()
    expect(page.locator("#age-words")).to_contain_text("held")


def test_a_part_that_is_replaced_keeps_the_focus_and_is_announced(window: Window) -> None:
    page, message = window.page, f"/topics/orders/messages/{window.scene.ordered[1]}"
    window.open(message)
    page.get_by_label("Subscription", exact=True).fill("warehouse")
    page.keyboard.press("Enter")
    expect(page.locator("#say")).to_have_text("Explanation: warehouse did not get this message")
    expect(page.get_by_label("Subscription", exact=True)).to_be_focused()
    window.open("/topics/orders/charts")
    page.get_by_role("link", name="day").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#charts-title")).to_have_text("Last day")
    expect(page.get_by_role("link", name="day")).to_be_focused()


def test_a_request_that_fails_leaves_no_old_result(window: Window) -> None:
    page = window.open("/workbench?topic=orders&subscription=mailer")
    refused = "The form is outdated"
    page.route("**/workbench", lambda route: route.fulfill(status=403, content_type="text/plain", body=refused))
    page.get_by_role("textbox", name="Text").fill("other")
    expect(page.locator("#verdicts").get_by_role("alert")).to_have_text(refused)
    expect(page.locator("#verdicts summary")).to_have_count(0)
    window.complaints.clear()


def test_a_subscription_is_made_by_its_form_beside_the_command_that_does_the_same(window: Window) -> None:
    page = window.open("/topics/payments/subscribe")
    page.get_by_label("Name: a letter").fill("typed")
    page.get_by_label("Address").fill("http://127.0.0.1:9/hook")
    page.get_by_label("Timeout of one attempt").fill("4")
    command = "tagcast subscribe payments typed --url http://127.0.0.1:9/hook"
    expect(page.locator("#command")).to_contain_text(command)
    assert window.violations() == []
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("status")).to_contain_text("The subscription is created.")
    assert window.api.get_subscription("payments", "typed").timeout_seconds == 4
    window.api.delete_subscription("payments", "typed")


def test_exact_times_replace_distances_also_in_parts_that_are_refreshed(window: Window) -> None:
    page = window.open("/topics/orders/subscriptions/billing")
    expires = page.locator("dl.facts time, dl time").last
    backlog = page.locator("td time").last
    expect(backlog).to_have_text(re.compile("^in "))
    page.keyboard.press("t")
    exact = re.compile(r"^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC$")
    expect(expires).to_have_text(exact)
    expect(page.get_by_role("button", name="Exact times")).to_have_attribute("aria-pressed", "true")
    read_at = page.locator("#read-at").get_attribute("datetime")
    expect(page.locator("#read-at")).not_to_have_attribute("datetime", read_at or "")
    expect(backlog).to_have_text(exact)
    assert page.evaluate(
        "[...document.querySelectorAll('time[title]')].every((each) => each.hasAttribute('data-exact'))"
    )
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.get_by_role("button", name="Exact times").click()
    expect(backlog).to_have_text(re.compile("^in "))


def test_the_five_places_have_keys_that_can_be_turned_off(window: Window) -> None:
    page = window.open("/")
    settle(page)
    for key, title in (("t", "Topics"), ("s", "Search"), ("l", "Tail"), ("f", "Filters"), ("o", "Overview")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        expect(page.locator("h1")).to_have_text(title)
        settle(page)
    page.keyboard.press("/")
    expect(page.get_by_role("textbox", name="Message id")).to_be_focused()
    page.get_by_role("button", name="Shortcuts").click()
    expect(page.get_by_role("heading", name="Keyboard shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Shortcuts")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keyboard shortcuts")).to_be_visible()
    page.get_by_label("Turn off shortcuts").check()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("heading", name="Keyboard shortcuts")).to_be_hidden()
    page.evaluate("localStorage.clear()")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("halves", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_no_page_is_wider_than_its_window_with_the_widest_data_that_the_limits_allow(
    window: Window, halves: int
) -> None:
    failing = str({**window.api.get_subscription("orders", "billing").endpoint}["url"])
    widest = widest_played(window.api, failing)
    found = []
    shown = list({**pages(window.scene), **others(window.scene), **widest}.items())
    for name, path in part_of(shown, halves):
        page = window.open(path)
        settle(page)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            needed = page.evaluate("document.documentElement.scrollWidth")
            found += [(name, width, needed)] if needed > width else []
    window.complaints = [said for said in window.complaints if "404" not in said]
    assert found == []

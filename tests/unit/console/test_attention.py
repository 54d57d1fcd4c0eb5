"""Which lanes come first, how they are counted, and what is kept of lists that take several requests."""

import asyncio
import gc
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from tagcast_client import AsyncClient, AsyncPages, Page, UnreachableError
from tagcast_client.models import PendingHead, UrgentLane

from local.console.attention import BacklogCounts, Choice, LaneNeed, by_need, group_by_cause, host_of, place
from local.console.cached_list import CachedList, ListReading
from tests.unit.console.visitor import Visitor

NOW = datetime.now(UTC)
HEAD = PendingHead("07530546929946125525", "blocked", 1, None, NOW + timedelta(hours=9), None, "http 500", NOW)
FAILING = UrgentLane("orders", "billing", "blocked", HEAD, "http://a")


def lane(name: str, state: Any = "blocked", *, host: str = "http://a", left_h: float = 9, age_s: int = 0) -> UrgentLane:
    head = replace(HEAD, expires_at=NOW + timedelta(hours=left_h), accepted_at=NOW - timedelta(seconds=age_s))
    return replace(FAILING, subscription=name, state=state, host=host, head=head)


LANES = (
    lane("paused", "paused", age_s=900),
    lane("retried"),
    lane("retried-longer", "lost_contact", age_s=60, host="http://b"),
    lane("expiring", left_h=0.5),
    lane("new", "unverified"),
    lane("gone", "suspended", age_s=5),
    replace(FAILING, subscription="empty", head=None),
)


def test_what_only_a_person_can_mend_comes_first_then_what_is_lost_soon_then_the_oldest() -> None:
    names = [each.subscription for each in sorted(LANES, key=place)]

    assert names == ["gone", "new", "expiring", "retried-longer", "retried", "empty", "paused"]


def test_lanes_are_counted_exactly_by_need_state_and_host() -> None:
    counted = by_need(LANES)

    assert {need: dict(states) for need, states in counted.items()} == {
        LaneNeed.PERSON: {"unverified": 1, "suspended": 1},
        LaneNeed.SOON: {"blocked": 1},
        LaneNeed.RETRIED: {"blocked": 2, "lost_contact": 1},
        LaneNeed.PAUSED: {"paused": 1},
    }
    assert [(cause.name, cause.lanes, cause.need) for cause in group_by_cause(LANES, host_of)] == [
        ("http://a", 6, LaneNeed.PERSON),
        ("http://b", 1, LaneNeed.RETRIED),
    ]


def test_a_choice_takes_what_fits_all_that_is_asked() -> None:
    def chosen(**asked: str) -> list[str]:
        return [each.subscription for each in LANES if Choice.of(asked).takes(each)]

    assert chosen(need="retried", host="http://b") == ["retried-longer"]
    assert chosen(text="ORDERS / ret", state="blocked") == ["retried"]
    assert chosen(topic="payments") == []
    assert len(chosen()) == len(LANES)


class PagedApi:
    """Answers with pages of one item each, slowly if told so; *gone* does not answer."""

    def __init__(self) -> None:
        self.items, self.pause_s, self.gone, self.asked = ["a", "b", "c"], 0.0, False, 0

    @property
    def pages(self) -> AsyncPages[str]:
        return AsyncPages(self._page)

    async def _page(self, cursor: str | None) -> Page[str]:
        self.asked += 1
        if self.gone:
            raise UnreachableError("http://api.test", "nobody listens", refused=True)
        await asyncio.sleep(self.pause_s)
        place = int(cursor or 0)
        return Page((self.items[place],), str(place + 1) if place + 1 < len(self.items) else None)


async def test_a_list_is_read_whole_once_in_a_while_and_shown_as_far_as_it_was_read_the_first_time() -> None:
    api = PagedApi()
    api.pause_s = 0.15
    kept = CachedList(api.pages, fresh_s=60)
    first = await kept.look()
    assert (first.items, first.is_whole) == (("a",), False)
    await asyncio.sleep(0.5)
    whole = await kept.look()
    assert (whole.items, whole.is_whole, api.asked) == (("a", "b", "c"), True, 3)
    assert (await kept.look(), api.asked) == (whole, 3)
    api.items, api.pause_s = ["d"], 0.0
    kept.forget()
    assert (await kept.look()).items == ("d",)
    await kept.stop()


async def test_a_list_that_was_read_during_an_act_is_read_anew_behind_it_or_said_to_be_outdated() -> None:
    api = PagedApi()
    kept = CachedList(api.pages, fresh_s=60)
    await kept.look()
    api.items, api.pause_s = ["middle"], 0.4
    kept.forget()
    looking = asyncio.create_task(kept.look())
    await asyncio.sleep(0.1)
    api.items = ["end"]
    kept.forget()
    assert ((await looking).items, (await kept.look()).is_outdated) == (("end",), False)
    api.pause_s = 3
    kept.forget()
    late = await kept.look()
    assert (late.items, late.is_outdated) == (("end",), True)
    await kept.stop()


async def test_a_count_of_many_backlogs_that_is_cancelled_leaves_no_request_unawaited() -> None:
    class Backlogs:
        def list_backlog(self, topic: str, subscription: str, limit: int) -> AsyncPages[str]:
            return AsyncPages(self._page)

        async def _page(self, cursor: str | None) -> Page[str]:
            await asyncio.sleep(60)
            raise AssertionError

    backlogs = BacklogCounts(cast("AsyncClient", Backlogs()))
    assert await backlogs.of([lane(f"s{number}") for number in range(20)]) == {}
    await backlogs.stop()
    gc.collect()  # A coroutine that nobody awaited says so when it is collected.


def test_a_first_look_says_no_number_before_anything_was_read(visitor: Visitor, ids: list[str]) -> None:
    async def look() -> ListReading[UrgentLane]:
        return ListReading((), NOW, is_whole=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(visitor.desk.lanes, "look", look)
        seen = visitor.get("/").text
    assert "Loading lanes…" in seen
    assert 'id="lanes-count">…</span>' in seen
    assert re.search(r'id="lanes-count">1</span>', visitor.get("/").text)


async def test_what_cannot_be_read_again_is_shown_as_it_was_with_the_reason() -> None:
    api = PagedApi()
    kept = CachedList(api.pages, fresh_s=0)
    before = await kept.look()
    api.gone = True
    then = await kept.look()
    assert (then.items, then.read_at) == (before.items, before.read_at)
    assert "api.test" in then.fault
    api.gone = False
    assert (await kept.look()).fault == ""
    await kept.stop()

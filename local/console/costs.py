"""Estimates the monthly cost of topics from their present rates and AWS's list prices."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from aiohttp import web

from local.console.cached_list import none_if_missing, together
from local.console.desk import Desk, desk_of
from local.console.tail import Rates, rates_of
from local.rules.costs import usd_a_month, usd_of_a_million_messages

TOPICS_SHOWN = 25


@dataclass(frozen=True)
class Cost:
    """A topic's cost in US dollars per month at its present *rates*. If *rates* is None, the cost is unknown."""

    topic: str
    rates: Rates | None
    messages_usd: float = 0.0
    retries_usd: float = 0.0


def cost_of(topic: str, rates: Rates | None) -> Cost:
    """Return a topic's cost at *rates*; an unknown cost if *rates* is None. Each failed attempt counts as one retry.

    >>> round(cost_of("t", Rates(60.0, 10.0, 30.0, 0.0)).messages_usd)
    96
    """
    return Cost(topic, rates) if rates is None else Cost(topic, rates, *usd_a_month(rates.published, rates.failed))


async def _cost(desk: Desk, topic: str) -> Cost | None:
    tail = await none_if_missing(desk.api.tail(topic, max_events=0))
    return None if tail is None else cost_of(topic, rates_of(tail.counts))


async def costs(request: web.Request) -> web.Response:
    """Show one page of the topics, with their costs."""
    desk = desk_of(request)
    topics = await desk.api.list_topics(limit=TOPICS_SHOWN).page(request.query.get("topics"))
    estimates = await together(partial(_cost, desk), [each.name for each in topics.items])
    found = [each for each in estimates if each is not None]
    return desk.page(
        "costs.html",
        costs=found,
        topics=topics,
        cursor=request.query.get("topics", ""),
        prices=usd_of_a_million_messages(),
        messages_usd=sum(each.messages_usd for each in found),
        retries_usd=sum(each.retries_usd for each in found),
    )


ROUTES = (web.get("/costs", costs),)

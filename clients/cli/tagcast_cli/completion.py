"""Shell completion of topic and subscription names, read from the API."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from tagcast_client import TagcastError
from tagcast_client.operation import path_of

from tagcast_cli.api_client import DEFAULT_URL, client_for, pages, url_fault

PAGES_MAX = 10
"""The maximum number of list pages to read, of 100 names each, because the user waits."""


def topics(ctx: Any, incomplete: str) -> list[str]:
    """Return the topic names that begin with *incomplete*."""
    return _beginning(incomplete, ctx, "topics")


def subscriptions(ctx: Any, incomplete: str) -> list[str]:
    """Return the names of subscriptions that begin with *incomplete*, in the topic of the previous argument."""
    topic = ctx.params.get("topic")
    return _beginning(incomplete, ctx, "topics", topic, "subscriptions") if topic else []


def _beginning(incomplete: str, ctx: Any, *path: str) -> list[str]:
    try:
        return [name for name in _names(ctx, path[-1], path_of(*path)) if name.startswith(incomplete)]
    except TagcastError:  # The user is still typing, so no error is shown.
        return []


def _names(ctx: Any, key: str, path: str) -> Iterator[str]:
    given = ctx.find_root().params
    url = str(given.get("url") or DEFAULT_URL)
    if url_fault(url) is not None:
        return
    with client_for(url, given.get("profile"), given.get("region"), given.get("token")) as api:
        for answer in islice(pages(api, path, 100), PAGES_MAX):
            yield from (str(each["name"]) for each in answer.json.get(key, ()))

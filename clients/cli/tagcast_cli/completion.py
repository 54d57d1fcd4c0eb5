"""Shell completion of topic and subscription names, read from the API."""

from __future__ import annotations

from itertools import islice
from typing import Any

from tagcast_client import TagcastError
from tagcast_client.operation import path_of

from tagcast_cli.api_client import DEFAULT_URL, client_for, pages

PAGES_MAX = 10
"""The maximum number of list pages to read, of 100 names each, because the user waits."""


def topics(ctx: Any, incomplete: str) -> list[str]:
    """Return the topic names that begin with *incomplete*. Return no names if the API does not answer."""
    return _beginning(incomplete, ctx, "topics")


def subscriptions(ctx: Any, incomplete: str) -> list[str]:
    """Return the names of subscriptions that begin with *incomplete*, in the topic of the previous argument.

    Return no names if the API does not answer.
    """
    topic = ctx.params.get("topic")
    return _beginning(incomplete, ctx, "topics", topic, "subscriptions") if topic else []


def _beginning(incomplete: str, ctx: Any, *path: str) -> list[str]:
    given = ctx.find_root().params
    url = str(given.get("url") or DEFAULT_URL)
    try:
        with client_for(url, given.get("profile"), given.get("region"), given.get("token")) as api:
            answers = islice(pages(api, path_of(*path), 100), PAGES_MAX)
            names = [str(each["name"]) for answer in answers for each in answer.json.get(path[-1], ())]
    except (TagcastError, ValueError):  # The user is still typing, so no error is shown.
        return []
    return [name for name in names if name.startswith(incomplete)]

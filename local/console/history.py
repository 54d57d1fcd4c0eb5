"""The history of a topic: its messages of the last day, newest first, filtered by a form."""

from __future__ import annotations

from typing import Any

from aiohttp import web
from tagcast_client import ProblemError
from tagcast_client.models import History

from local.console.desk import desk_of
from local.console.search import STATES, since_of

PAGE = 50


async def history(request: web.Request) -> web.Response:
    """Show a page of the matching messages."""
    desk, name = desk_of(request), request.match_info["topic"]
    said = {field: text.strip() for field, text in request.query.items() if text.strip()}
    found, fault = History((), None, None), ""
    try:
        found = await desk.api.read_history(name, **_asked(said), limit=PAGE, cursor=said.get("cursor"))
    except ValueError as problem:
        fault = str(problem)
    except ProblemError as problem:
        if problem.status == 404 and "subscription" not in said:
            raise
        fault = str(problem)
    narrowed = {field: text for field, text in said.items() if field != "cursor"}
    values: dict[str, Any] = {"name": name, "said": narrowed, "found": found, "fault": fault}
    return desk.page("history.html", states=(*STATES, "unmatched"), **values)


def _asked(said: dict[str, str]) -> dict[str, Any]:
    """Return the search criteria in the fields. Raises ValueError.

    >>> _asked({"tag": "a", "property": "customer=42"})
    {'tag': 'a', 'property': 'customer=42'}
    """
    asked: dict[str, Any] = {field: said[field] for field in ("tag", "subscription", "state") if field in said}
    if "property" in said:
        if said["property"].find("=") < 1:
            raise ValueError("a property is name=value")
        asked["property"] = said["property"]
    if "within" in said:
        asked["since"] = since_of(said["within"])
    return asked


ROUTES = (web.get("/topics/{topic}/history", history),)

"""The functions of the HTTP API, asked with API Gateway's events (payload 2.0) as if it stood before them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from tagcast.ports import World

from functions.manage import app as manage
from functions.publish import app as publish
from functions.pull import app as pull

PUBLISHING = ("/messages", "/messages/batch", "/replay")
PULLING = ("pull", "ack", "nack", "extend")


def answered(
    world: World,
    method: str,
    target: str,
    body: str | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    is_base64: bool = False,
) -> dict[str, Any]:
    """What the function says to whom API Gateway gives a request; *target* is the path with its query."""
    path, _, query = target.partition("?")
    event: dict[str, Any] = {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": query,
        "headers": dict(headers or {}),
        "requestContext": {"stage": "$default", "requestId": "r-1", "http": {"method": method, "path": path}},
        "isBase64Encoded": is_base64,
    }
    if query:
        event["queryStringParameters"] = dict(parse_qsl(query, keep_blank_values=True))
    if body is not None:
        event["body"] = body
    last = path.rpartition("/")[2] if method == "POST" else ""
    waits = last in PULLING or path.endswith("/tail")
    publishes = method == "POST" and path.endswith(PUBLISHING)
    function = publish if publishes else pull if waits else manage
    answer: dict[str, Any] = function.handle(event, world)
    return answer

"""The functions of the HTTP API, asked with API Gateway's events (payload 2.0) as if it stood before them."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl

from tagcast.ports import World

from functions.manage import app as manage
from functions.publish import app as publish
from functions.pull import app as pull
from local.front.authorizer import as_text

PUBLISHING = ("/messages", "/messages/batch", "/replay")
PULLING = ("pull", "ack", "nack", "extend")


def token(claims: Mapping[str, Any]) -> str:
    """A token as API Gateway lets it through, unsigned."""
    return f"e30.{urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.c2lnbmF0dXJl"


def answered(
    world: World,
    method: str,
    target: str,
    body: str | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    is_base64: bool = False,
    claims: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the answer of the function to which API Gateway routes the request; *target* is the path with its query.

    With *claims* it comes with a token, and none of its scopes was asked for.
    """
    path, _, query = target.partition("?")
    event: dict[str, Any] = {
        "version": "2.0",
        "rawPath": path,
        "rawQueryString": query,
        "headers": dict(headers or {}),
        "requestContext": {"stage": "$default", "requestId": "r-1", "http": {"method": method, "path": path}},
        "isBase64Encoded": is_base64,
    }
    if claims is not None:
        event["headers"]["Authorization"] = f"Bearer {token(claims)}"
        scopes = str(claims.get("scope", "")).split()
        told = {name: as_text(value) for name, value in claims.items()}
        event["requestContext"]["authorizer"] = {"jwt": {"claims": told, "scopes": scopes}}
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

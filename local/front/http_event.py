"""Converts HTTP requests to events in API Gateway's payload format 2.0, and results of functions to HTTP responses."""

import base64
import json
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from local.functions.plain_server import Response
from local.functions.quick_json import decode

TEXT_TYPES = ("text/", "application/json", "application/javascript", "application/xml")


@dataclass(frozen=True)
class HttpRequest:
    """An HTTP request. The headers have their original order."""

    method: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    source_ip: str = "127.0.0.1"

    def header(self, name: str) -> str | None:
        """Return the value of the header whose name in lower case is *name*; None if the request does not have it."""
        return next((value for found, value in self.headers if found.lower() == name), None)


def join_values(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the values by name. As in payload format 2.0, several values of one name are joined by commas.

    >>> join_values([("a", "1"), ("b", "2"), ("a", "3")])
    {'a': '1,3', 'b': '2'}
    """
    found: dict[str, str] = {}
    for name, value in pairs:
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def event_of(
    request: HttpRequest,
    route_key: str,
    path_parameters: Mapping[str, str],
    query_pairs: Iterable[tuple[str, str]],
) -> dict[str, Any]:
    """Return the event for a request, in payload format 2.0. Parts that the request lacks are left out, as on AWS."""
    headers = join_values((name.lower(), value) for name, value in request.headers if name.lower() != "cookie")
    cookies = [each for name, value in request.headers if name.lower() == "cookie" for each in value.split("; ")]
    now = time.time()
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": route_key,
        "rawPath": request.path,
        "rawQueryString": request.query,
        "headers": headers,
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "local",
            "domainName": headers.get("host", "localhost"),
            "domainPrefix": "local",
            "http": {
                "method": request.method,
                "path": request.path,
                "protocol": "HTTP/1.1",
                "sourceIp": request.source_ip,
                "userAgent": headers.get("user-agent", ""),
            },
            "requestId": str(uuid.uuid4()),
            "routeKey": route_key,
            "stage": "$default",
            "time": datetime.fromtimestamp(now, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "timeEpoch": int(now * 1000),
        },
        "isBase64Encoded": False,
    }
    if cookies:
        event["cookies"] = cookies
    query = join_values(query_pairs)
    if query:
        event["queryStringParameters"] = query
    if path_parameters:
        event["pathParameters"] = dict(path_parameters)
    if request.body:
        text = _text(request.body, headers.get("content-type", ""))
        event["body"] = base64.b64encode(request.body).decode() if text is None else text
        event["isBase64Encoded"] = text is None
    return event


def _text(body: bytes, content_type: str) -> str | None:
    """Return the body as text, or None if its type or bytes require Base64."""
    if content_type and not content_type.lower().startswith(TEXT_TYPES):
        return None
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def response_of(payload: bytes) -> Response:
    """Return the HTTP response for a function's result, as API Gateway makes it.

    A result without `statusCode` becomes the JSON body of a response with status 200.

    >>> response_of(b'{"statusCode": 201, "headers": {"etag": "1"}, "body": "x"}')
    Response(status=201, headers=(('etag', '1'),), body=b'x')
    >>> response_of(b'{"hello": 1}').body
    b'{"hello": 1}'
    """
    result = decode(payload or b"null")
    if not isinstance(result, dict) or "statusCode" not in result:
        body = result if isinstance(result, str) else json.dumps(result)
        return Response(200, (("content-type", "application/json"),), body.encode())
    headers = [(str(name), str(value)) for name, value in (result.get("headers") or {}).items()]
    for name, values in (result.get("multiValueHeaders") or {}).items():
        headers += [(str(name), str(value)) for value in values]
    headers += [("set-cookie", cookie) for cookie in result.get("cookies") or []]
    text = result.get("body") or ""
    body_bytes = base64.b64decode(text) if result.get("isBase64Encoded") else str(text).encode()
    return Response(int(result["statusCode"]), tuple(headers), body_bytes)


def problem(status: int, title: str, detail: str) -> Response:
    """Return an error response of the front itself, as a problem (RFC 9457)."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail}
    return Response(status, (("content-type", "application/problem+json"),), json.dumps(body).encode())

"""Endpoints on the command line: parsed from options, and formatted."""

from __future__ import annotations

from typing import Any

import typer
from tagcast_client.operation import Json


def endpoint_of(url: str | None, queue: str | None, function: str | None, *, is_pulled: bool = False) -> Json:
    """Return the endpoint from the one option that is given.

    >>> endpoint_of("https://example.com/hook", None, None)
    {'protocol': 'https', 'url': 'https://example.com/hook'}
    >>> endpoint_of(None, "arn:aws:sqs:eu-west-1:123456789012:orders", None)
    {'protocol': 'sqs', 'arn': 'arn:aws:sqs:eu-west-1:123456789012:orders'}
    """
    match url, queue, function, is_pulled:
        case None, None, None, True:
            return {"protocol": "pull"}
        case str(), None, None, False:
            return {"protocol": "http" if url.lower().startswith("http:") else "https", "url": url}
        case None, str(), None, False:
            return {"protocol": "sqs", "arn" if queue.startswith("arn:") else "queue_url": queue}
        case None, None, str(), False:
            return {"protocol": "lambda", "function": function}
        case _:
            raise typer.BadParameter("give exactly one endpoint: --url, --sqs, --lambda or --pull")


def protocol_of(endpoint: Any) -> Any:
    """Return the protocol of an endpoint in the API's form."""
    return endpoint.get("protocol") if isinstance(endpoint, dict) else None


def endpoint_text(endpoint: Any) -> str:
    """Return an endpoint as short text."""
    if not isinstance(endpoint, dict):
        return "—"
    address = next((endpoint[name] for name in ("url", "queue_url", "arn", "function") if endpoint.get(name)), "")
    return str(address) if endpoint.get("url") else f"{endpoint.get('protocol')} {address}"

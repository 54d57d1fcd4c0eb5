"""The receiver of `tagcast smoke`: a function, invoked directly or by its URL, that logs pushes to a queue.

This file alone is the code of the function, so it uses only Lambda's own Python. Anybody can call the URL, so the
function accepts only pushes that are signed with its secret.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import time
import uuid
from collections.abc import Mapping
from functools import cache
from typing import Any

LOG_VARIABLE, SECRET_VARIABLE, CLIENT_VARIABLE = "LOG_QUEUE", "SECRET", "CLIENT"
BROKEN, EXPIRING = "broken", "expiring"
"""Subscriptions that fail: the first on the first push of a message with ``FAILS_ONCE``, the second on every push."""
FAILS_ONCE = "fails-once"
"""The tag of a message whose first push fails."""
SECRET_PREFIX = "whsec_"
SKEW_S_MAX = 300.0

Reply = dict[str, Any]


def handle(event: Mapping[str, Any], context: object) -> Reply:
    """Run the function. Log a push if the service invoked the function, or answer a request to the function's URL."""
    if "requestContext" in event:
        return answer(event, os.environ)
    note(os.environ, str(event["subscription"]), str(event["message_id"]), int(event["attempt"]), 200)
    return {}


def answer(request: Mapping[str, Any], settings: Mapping[str, str]) -> Reply:
    """Answer a request to the URL. Confirm verifications, accept signed pushes, and let planned pushes fail.

    *settings* are the environment variables of the function.
    """
    method = request["requestContext"]["http"]["method"]
    headers = {name.lower(): value for name, value in request.get("headers", {}).items()}
    if method == "OPTIONS":
        origin = headers.get("webhook-request-origin", "")
        return {"statusCode": 200, "headers": {"webhook-allowed-origin": origin, "webhook-allowed-rate": "*"}}
    if method != "POST":
        return {"statusCode": 200}
    text = request.get("body") or ""
    body = base64.b64decode(text) if request.get("isBase64Encoded") else text.encode()
    if not is_signed(headers, body, settings[SECRET_VARIABLE], time.time()):
        return {"statusCode": 401}
    if "x-tagcast-subscription" not in headers:
        return {"statusCode": 200, "body": str(json.loads(body).get("verification_token", ""))}
    subscription, attempt = headers["x-tagcast-subscription"], int(headers["x-tagcast-attempt"])
    status = status_of(subscription, attempt, json.loads(headers.get("x-tagcast-tags", "[]")))
    note(settings, subscription, headers["webhook-id"], attempt, status)
    return {"statusCode": status}


def status_of(subscription: str, attempt: int, tags: list[str]) -> int:
    """Return the status of the response to a push: 503 for a planned failure, otherwise 200.

    >>> [status_of("broken", attempt, ["fails-once"]) for attempt in (1, 2)], status_of("broken", 1, [])
    ([503, 200], 200)
    >>> status_of("expiring", 7, []), status_of("endpoint", 1, ["fails-once"])
    (503, 200)
    """
    fails = subscription == EXPIRING or (subscription == BROKEN and FAILS_ONCE in tags and attempt == 1)
    return 503 if fails else 200


def is_signed(headers: Mapping[str, str], body: bytes, secret: str, now_s: float) -> bool:
    """Return whether a push is signed with *secret* by Standard Webhooks, within five minutes of *now_s*.

    >>> signed = {"webhook-id": "m", "webhook-timestamp": "100"}
    >>> signed["webhook-signature"] = "v1,1WBMA0aQH4fPa6RXgOxfaUBNbmEgedngUzxro3D9Sik="
    >>> secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
    >>> is_signed(signed, b"a", secret, 101.0), is_signed(signed, b"b", secret, 101.0)
    (True, False)
    >>> is_signed(signed, b"a", secret, 500.0), is_signed({}, b"a", secret, 101.0)
    (False, False)
    """
    name, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not at.isdecimal() or abs(int(at) - now_s) > SKEW_S_MAX:
        return False
    key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
    digest = hmac.new(key, f"{name}.{at}.".encode() + body, hashlib.sha256).digest()
    wanted = f"v1,{base64.b64encode(digest).decode()}".encode()
    signatures = headers.get("webhook-signature", "").encode(errors="replace").split(b" ")
    return any(hmac.compare_digest(wanted, each) for each in signatures)


def note(settings: Mapping[str, str], subscription: str, message_id: str, attempt: int, status: int) -> None:
    """Send an entry for a push to the log queue: the push, its time and its response.

    The queue keeps the order of the entries of a subscription. *settings* has the queue's URL.
    """
    push = {"subscription": subscription, "message_id": message_id, "attempt": attempt, "status": status}
    _queues(settings.get(CLIENT_VARIABLE, "{}")).send_message(
        QueueUrl=settings[LOG_VARIABLE],
        MessageBody=json.dumps({**push, "at_s": time.time()}),
        MessageGroupId=subscription,
        MessageDeduplicationId=str(uuid.uuid4()),
    )


@cache
def _queues(options: str) -> Any:
    import boto3

    return boto3.client("sqs", **json.loads(options))

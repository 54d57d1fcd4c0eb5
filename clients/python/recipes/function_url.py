"""Receive pushes with a Lambda function behind a function URL (or an HTTP API): handler `function_url.handler`."""

import base64
import os
from typing import Any

from tagcast_client import Deduplicator, InProgressError, Receiver, TagcastError

receiver = Receiver(os.environ["WEBHOOK_SECRET"])
ORIGIN = os.environ.get("WEBHOOK_ORIGIN", "*")  # <account>.<region>.tagcast
seen = Deduplicator()  # Works in one execution environment. For several, give it the store of dynamodb_store.py.


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    """Process a push, and respond 2xx only after that. After any other response the push is retried."""
    if event["requestContext"]["http"]["method"] == "OPTIONS":  # The verification before the first push.
        return {"statusCode": 200, "headers": {"WebHook-Allowed-Origin": ORIGIN}}
    body = event.get("body") or ""
    content = base64.b64decode(body) if event.get("isBase64Encoded") else body.encode()
    try:
        message = receiver.verify(event["headers"], content)
    except TagcastError:
        return {"statusCode": 401}
    try:
        with seen.once(message) as is_new:
            if is_new:
                print(message.topic, message.message_id, message.text())
    except InProgressError as fault:
        return {"statusCode": 503, "headers": {"Retry-After": f"{fault.retry_after_s:.0f}"}}
    return {"statusCode": 204}

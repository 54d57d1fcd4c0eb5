"""Receive pushes with Django.

Add to `urls.py`: `path("hook", csrf_exempt(hook))`, because pushes have no CSRF token.
"""

import os

from django.http import HttpRequest, HttpResponse
from tagcast_client import Deduplicator, InProgressError, Receiver, TagcastError

receiver = Receiver(os.environ["WEBHOOK_SECRET"])
ORIGIN = os.environ.get("WEBHOOK_ORIGIN", "*")  # <account>.<region>.tagcast
seen = Deduplicator()  # Works in one process. For several processes give it a store, e.g. of dynamodb_store.py.


def hook(request: HttpRequest) -> HttpResponse:
    """Process a push, and respond 2xx only after that. After any other response the push is retried."""
    if request.method == "OPTIONS":  # The verification before the first push.
        return HttpResponse(headers={"WebHook-Allowed-Origin": ORIGIN})
    try:
        message = receiver.verify(request.headers, request.body)
    except TagcastError:
        return HttpResponse(status=401)
    try:
        with seen.once(message) as is_new:
            if is_new:
                print(message.topic, message.message_id, message.text())
    except InProgressError as fault:
        return HttpResponse(status=503, headers={"Retry-After": f"{fault.retry_after_s:.0f}"})
    return HttpResponse(status=204)

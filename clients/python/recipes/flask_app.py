"""Receive pushes with Flask. Run `WEBHOOK_SECRET=whsec_… flask --app flask_app run`."""

import os

from flask import Flask, request
from tagcast_client import Deduplicator, InProgressError, Receiver, TagcastError

receiver = Receiver(os.environ["WEBHOOK_SECRET"])
ORIGIN = os.environ.get("WEBHOOK_ORIGIN", "*")  # <account>.<region>.tagcast
seen = Deduplicator()
app = Flask(__name__)


@app.route("/hook", methods=["OPTIONS"])
def allow() -> tuple[str, int, dict[str, str]]:
    """Answer a verification request, which comes before the first push. Only the deployment ORIGIN is allowed."""
    return "", 200, {"WebHook-Allowed-Origin": ORIGIN}


@app.post("/hook")
def hook() -> tuple[str, int, dict[str, str]]:
    """Process a push, and respond 2xx only after that. After any other response the push is retried."""
    try:
        message = receiver.verify(dict(request.headers), request.get_data())
    except TagcastError:
        return "", 401, {}
    try:
        with seen.once(message) as is_new:
            if is_new:
                print(message.topic, message.message_id, message.text())
    except InProgressError as fault:
        return "", 503, {"Retry-After": f"{fault.retry_after_s:.0f}"}
    return "", 204, {}

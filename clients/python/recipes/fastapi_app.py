"""Receive pushes with FastAPI. Run `WEBHOOK_SECRET=whsec_… uvicorn fastapi_app:app`."""

import os

from fastapi import FastAPI, Request, Response
from tagcast_client import AsyncDeduplicator, InProgressError, Receiver, TagcastError

receiver = Receiver(os.environ["WEBHOOK_SECRET"])
ORIGIN = os.environ.get("WEBHOOK_ORIGIN", "*")  # <account>.<region>.tagcast
seen = AsyncDeduplicator()
app = FastAPI()


@app.options("/hook")
def allow() -> Response:
    """Answer a verification request, which comes before the first push. Only the deployment ORIGIN is allowed."""
    return Response(headers={"WebHook-Allowed-Origin": ORIGIN})


@app.post("/hook")
async def hook(request: Request) -> Response:
    """Process a push, and respond 2xx only after that. After any other response the push is retried."""
    try:
        message = receiver.verify(request.headers, await request.body())
    except TagcastError:
        return Response(status_code=401)
    try:
        async with seen.once(message) as is_new:
            if is_new:
                print(message.topic, message.message_id, message.text())
    except InProgressError as fault:
        return Response(status_code=503, headers={"Retry-After": f"{fault.retry_after_s:.0f}"})
    return Response(status_code=204)

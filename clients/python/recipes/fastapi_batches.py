"""Receive batched pushes with FastAPI. Run `WEBHOOK_SECRET=whsec_… uvicorn fastapi_batches:app`.

The subscription needs the setting `batch`.
"""

import logging
import os

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from tagcast_client import AsyncDeduplicator, InProgressError, Received, Receiver, TagcastError, item_failures

receiver = Receiver(os.environ["WEBHOOK_SECRET"])
ORIGIN = os.environ.get("WEBHOOK_ORIGIN", "*")  # <account>.<region>.tagcast
seen = AsyncDeduplicator()
app = FastAPI()


def process(message: Received) -> None:
    """Process a message. If this raises an exception, only this message of the batch fails."""
    print(message.topic, message.message_id, message.text())


@app.options("/hook")
def allow() -> Response:
    """Answer a verification request, which comes before the first push. Only the deployment ORIGIN is allowed."""
    return Response(headers={"WebHook-Allowed-Origin": ORIGIN})


@app.post("/hook")
async def hook(request: Request) -> Response:
    """Process the messages of a batch, and respond with the failed ones. All other messages succeed."""
    try:
        messages = receiver.verify_batch(request.headers, await request.body())
    except TagcastError:
        return Response(status_code=401)
    failed = []
    for message in messages:
        try:
            async with seen.once(message) as is_new:
                if is_new:
                    process(message)
        except InProgressError:
            failed.append(message)
        except Exception:
            logging.exception("message %s failed", message.message_id)
            failed.append(message)
    return JSONResponse(item_failures(failed))

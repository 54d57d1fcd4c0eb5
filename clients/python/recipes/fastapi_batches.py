"""A receiver of batches with FastAPI: `uvicorn fastapi_batches:app`; of a subscription with `batch`."""

import os

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from tagcast_client import AsyncDeduplicator, InProgressError, Received, Receiver, TagcastError, item_failures

receiver = Receiver(os.environ["WEBHOOK_SECRET"])
ORIGIN = os.environ.get("WEBHOOK_ORIGIN", "*")  # <account>.<region>.tagcast
seen = AsyncDeduplicator()
app = FastAPI()


def process(message: Received) -> None:
    """Do what a message asks for; whatever is raised here fails this message alone."""
    print(message.topic, message.message_id, message.text())


@app.options("/hook")
def allow() -> Response:
    """Agree to be pushed to by the deployment that is known here: it asks before the first push."""
    return Response(headers={"WebHook-Allowed-Origin": ORIGIN})


@app.post("/hook")
async def hook(request: Request) -> Response:
    """Answer which messages failed; the others are taken."""
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
        except (ValueError, InProgressError):
            failed.append(message)
    return JSONResponse(item_failures(failed))

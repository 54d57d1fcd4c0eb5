"""The wire format of a batch: one array of envelopes or CloudEvents, or several messages for a queue.

See docs/http-api.md, Batches; the batch format of CloudEvents 1.0 (JSON event format, 4).
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Sequence
from dataclasses import replace

from tagcast.model import ContentFormat, Message, Outcome, Protocol, Push, PushBatch
from tagcast.pushing.content_formats import DEFAULT_ACCOUNT, Content, format_of
from tagcast.pushing.envelope import HttpRequest, queue_message
from tagcast.pushing.response_text import READ_BYTES_MAX
from tagcast.pushing.webhook_signature import Sign, signed_headers

BATCH_FORMATS = frozenset(each for each in ContentFormat if format_of(each).batch_type)
"""The formats in which a message includes its own id, so that one body can contain several messages."""


def shared_item(message: Message, content_format: ContentFormat) -> Content:
    """Return the part of *message* in *content_format* that all batches with this message share."""
    return Content(format_of(content_format).shared_item(message))


def item_bytes(push: Push) -> int:
    """Return how many bytes a message takes in a batch, without separators and the names of topic and subscription."""
    settings = push.subscription.settings
    if settings.endpoint.protocol is Protocol.SQS:
        sent = queue_message(push)
        return len(sent.body.encode()) + sum(len(f"{name}String{text}") for name, text in sent.attributes.items())
    return len(shared_item(push.message, settings.content_format).octets)


def batch_request(
    batch: PushBatch, sent_at: int, version: str, shared: Sequence[Content], sign: Sign | None = None
) -> HttpRequest:
    """Return the request of a batch for an HTTP endpoint, signed with the subscription's secret and by *sign*.

    *shared* holds the :func:`shared_item` of each message. The other arguments are those of
    :func:`~tagcast.pushing.envelope.http_request`. Raises SecretError.
    """
    parts = array_parts(batch, shared)
    headers = signed_headers(batch.subscription, batch.batch_id, sent_at, version, parts, sign)
    headers["content-type"] = format_of(batch.subscription.settings.content_format).batch_type
    headers["accept-encoding"] = "identity"
    headers["x-tagcast-batch"] = str(len(batch.pushes))
    headers["x-tagcast-attempt"] = str(batch.pushes[0].attempt)  # Equal for all: retries are pushed alone.
    return HttpRequest(parts, headers)


def batch_event(batch: PushBatch) -> bytes:
    """Return the JSON event of a batch for a Lambda function."""
    content_format = batch.subscription.settings.content_format
    shared = [shared_item(push.message, content_format) for push in batch.pushes]
    return b"".join((b'{"messages":', *array_parts(batch, shared), b"}"))


def array_parts(batch: PushBatch, shared: Sequence[Content]) -> tuple[bytes, ...]:
    """Return the JSON array of the messages of *batch*, in parts. *shared* has the :func:`shared_item` of each."""
    form, parts = format_of(batch.subscription.settings.content_format), [b"["]
    for push, each in zip(batch.pushes, shared, strict=True):
        if len(parts) > 1:
            parts.append(b",")
        parts += form.parts(push, each.octets, DEFAULT_ACCOUNT)
    return (*parts, b"]")


ANSWER_BYTES_MAX = 64 * 1024
"""At most 64 KiB of a response are read. The ids of a hundred failed messages take a tenth of that."""
NAMED = "named in batchItemFailures"
MALFORMED = "malformed batchItemFailures"
_FAILURES, _NAME = "batchItemFailures", "itemIdentifier"


def read_response(batch: PushBatch, taken: Outcome, answer: bytes) -> Outcome:
    """Return *taken*, the outcome of an accepted request, with the failed messages that the response lists.

    *answer* is the response's body. A JSON object in the body may list failed messages. If the object is truncated or
    lists unknown ids, the whole batch fails, as in Lambda. Any other body accepts all messages. A byte order mark is
    ignored.
    """
    answer = answer.removeprefix(BOM_UTF8)
    if not answer.lstrip().startswith(b"{"):
        return taken
    outcome = replace(taken, answer=answer[:READ_BYTES_MAX])
    try:
        named = json.loads(answer).get(_FAILURES)
    except (ValueError, RecursionError):
        return replace(outcome, delivered=False, detail=MALFORMED)
    if named is None:
        return taken
    ids = _ids(named)
    if ids is None or not ids <= {push.message.message_id for push in batch.pushes}:
        return replace(outcome, delivered=False, detail=MALFORMED)
    return replace(outcome, failed=dict.fromkeys(ids, NAMED)) if ids else taken


def _ids(named: object) -> set[str] | None:
    """Return the ids in a list of failures, or None for an invalid list."""
    if not isinstance(named, list):
        return None
    ids = [each.get(_NAME) if isinstance(each, dict) else None for each in named]
    texts = {each for each in ids if isinstance(each, str)}
    return None if any(not isinstance(each, str) for each in ids) else texts

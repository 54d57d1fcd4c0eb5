"""What a receiver answers to a batch that it took: all of it, or which messages it did not.

See docs/http-api.md, Batches; the answer is that of Lambda's event sources (`ReportBatchItemFailures`).
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from dataclasses import replace

from tagcast.model import Outcome, PushBatch
from tagcast.pushing.response_text import READ_BYTES_MAX

ANSWER_BYTES_MAX = 64 * 1024
"""At most 64 KiB of an answer are read; a hundred names take a tenth of it."""
NAMED = "named in batchItemFailures"
MALFORMED = "malformed batchItemFailures"
_FAILURES, _NAME = "batchItemFailures", "itemIdentifier"


def answered(batch: PushBatch, taken: Outcome, answer: bytes) -> Outcome:
    """Return what *answer* makes of a request that was *taken*.

    An object may name messages that failed. One that is cut off, or names something else, fails the batch as a whole,
    as it does for Lambda; every other answer takes all. A byte order mark before it means nothing.
    """
    answer = answer.removeprefix(BOM_UTF8)
    if not answer.lstrip().startswith(b"{"):
        return taken
    told = replace(taken, answer=answer[:READ_BYTES_MAX])
    try:
        named = json.loads(answer).get(_FAILURES)
    except (ValueError, RecursionError):
        return replace(told, delivered=False, detail=MALFORMED)
    if named is None:
        return taken
    ids = _ids(named)
    if ids is None or not ids <= {push.message.message_id for push in batch.pushes}:
        return replace(told, delivered=False, detail=MALFORMED)
    return replace(told, failed=dict.fromkeys(ids, NAMED)) if ids else taken


def _ids(named: object) -> set[str] | None:
    """Return the ids that a list of failures names, or None if it is none."""
    if not isinstance(named, list):
        return None
    ids = [each.get(_NAME) if isinstance(each, dict) else None for each in named]
    texts = {each for each in ids if isinstance(each, str)}
    return None if any(not isinstance(each, str) for each in ids) else texts

"""Replay: publishes archived messages again to one subscription, as new messages, through the API.

Without ``--preview false`` nothing is sent. Each chunk is stored in the archive before it is sent. So a restarted run
with the same arguments sends only the messages that are not sent yet. Records are never changed.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sql
from tagcast.archive.record import RecordKind
from tagcast.errors import FilterEvaluationError, InvalidFilterError
from tagcast.filters.compiled import CompiledFilter
from tagcast.filters.kinds import compile_filter
from tagcast.instant import DAY_MS

from glue_jobs.io import arguments
from glue_jobs.io.manifests import AT_ONCE
from glue_jobs.io.messages_read import BODIES, Seen, body_of
from glue_jobs.io.objects import LostRaceError, Objects, json_of
from glue_jobs.io.session import open_session
from glue_jobs.io.storage import Archive, finish, print_progress
from glue_jobs.measuring.filter_sets import Filter, current_filter

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from tagcast_client import Accepted, ArchivedMessage, Refused

Post = Callable[[Sequence[Mapping[str, Any]], str], "tuple[Accepted | Refused, ...]"]
"""Sends messages under an idempotency key, and returns one result for each message."""

CHUNK_BYTES_MAX = 3_500_000
"""A chunk stays below the API's limit of 4 MiB for a request."""
FIELDS = ("body", "body_base64", "tags", "routing_key", "properties", "ordering_key", "content_type")


def select_messages(messages: DataFrame, topic: str, first_at: int, end_at: int) -> DataFrame:
    """Return the topic's messages accepted from *first_at* to before *end_at* (ms), without replays, sorted by id."""
    mine = messages.where(sql.col("topic") == topic)
    inside = (sql.col("accepted_at") >= first_at) & (sql.col("accepted_at") < end_at)
    return mine.where(inside & sql.col("replay_of").isNull()).orderBy("message_id")


def offer_of(row: Any) -> dict[str, Any]:
    """Convert a row of the archive to a message in the API's form, which is called an *offer* here."""
    offer = {name: getattr(row, name) for name in FIELDS if getattr(row, name)} | json.loads(row.attributes or "{}")
    if row.body_is_text:
        offer["body"] = base64.b64decode(offer.pop("body_base64")).decode()
    if "body" not in offer and "body_base64" not in offer:
        offer["body"] = ""
    return {**offer, "replay_of": row.message_id}


def chunks(offers: Iterator[dict[str, Any]], most: int) -> Iterator[list[dict[str, Any]]]:
    """Yield chunks of offers in their order, each of at most *most* offers and within the API's size limit."""
    chunk: list[dict[str, Any]] = []
    size = 0
    for offer in offers:
        length = len(json.dumps(offer).encode())
        if chunk and (len(chunk) == most or size + length > CHUNK_BYTES_MAX):
            yield chunk
            chunk, size = [], 0
        chunk.append(offer)
        size += length
    if chunk:
        yield chunk


def _passes(filters: Sequence[CompiledFilter], row: Any) -> bool:
    body = body_of(*(getattr(row, name, None) for name in BODIES))
    seen = Seen(tuple(row.tags or ()), row.routing_key, row.properties or {}, body)
    try:
        return all(filter.evaluate(seen) is True for filter in filters)
    except FilterEvaluationError:
        return False


def is_replayable() -> Column:
    """Return the condition of a replayable message: its body was archived, and no part was erased."""
    return (sql.col("body").isNotNull() | sql.col("body_base64").isNotNull()) & sql.col("hashes").isNull()


def offers(messages: DataFrame, filters: Sequence[CompiledFilter]) -> Iterator[dict[str, Any]]:
    """Yield the replayable messages that match all *filters*, in order. Only some of them are in memory at a time."""
    for row in messages.where(is_replayable()).toLocalIterator():
        if _passes(filters, row):
            yield offer_of(row)


def preview(messages: DataFrame, filters: Sequence[CompiledFilter]) -> dict[str, int | None]:
    """Return number, bytes, and first and last instant (ms) of the messages to send.

    The result also has the numbers of messages that will not be sent, by reason.
    """
    reads_body = any(filter.reads_body for filter in filters)
    columns = ("tags", "routing_key", "properties", "body_bytes", "accepted_at", *(BODIES if reads_body else ()))
    counts = {"messages": 0, "bytes": 0, "without_body": 0, "parts_gone": 0, "filtered_out": 0}
    instants: list[int] = []
    parts_gone = sql.col("hashes").isNotNull().alias("parts_gone")
    for row in messages.select(*columns, is_replayable().alias("kept"), parts_gone).toLocalIterator():
        if row.parts_gone:
            counts["parts_gone"] += 1
        elif not row.kept and reads_body:
            counts["without_body"] += 1
        elif not _passes(filters, row):
            counts["filtered_out"] += 1
        elif not row.kept:
            counts["without_body"] += 1
        else:
            counts["messages"] += 1
            counts["bytes"] += row.body_bytes or 0
            instants = [instants[0] if instants else row.accepted_at, row.accepted_at]
    return {**counts, "first_at": instants[0] if instants else None, "last_at": instants[1] if instants else None}


def to_archived_message(offer: Mapping[str, Any]) -> ArchivedMessage:
    """Convert an *offer* (an archived message in the API's form) to the form of the Python client."""
    from tagcast_client import ArchivedMessage, NewMessage

    octets = offer.get("body_base64")
    body = offer["body"] if octets is None else base64.b64decode(octets)
    more = {name: value for name, value in offer.items() if name not in ("body", "body_base64", "replay_of")}
    return ArchivedMessage(offer["replay_of"], NewMessage(body, **more))


@dataclass(slots=True)
class Pace:
    """Limits sending to *rate* messages a second on average, counted from the first message."""

    rate: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    _free_at: float = 0.0

    def wait(self, messages: int) -> None:
        """Wait until *messages* more messages may be sent."""
        now = self.clock()
        if self._free_at > now:
            self.sleep(self._free_at - now)
        self._free_at = max(self._free_at, now) + messages / self.rate


def poster(given: argparse.Namespace) -> Post:
    """Return a function that sends messages to the subscription in the arguments, at the rate in the arguments.

    The function also takes an idempotency key. The client repeats a request with the same key, so no message is
    published twice.
    """
    # Only a run that sends needs the client and its requirements.
    from tagcast_client import Client, SigV4

    client = Client(given.api, auth=SigV4(region=given.region) if given.sign else None, user_agent="tagcast-replay")
    pace = Pace(given.rate)

    def post(messages: Sequence[Mapping[str, Any]], key: str) -> tuple[Accepted | Refused, ...]:
        pace.wait(len(messages))
        return client.replay(given.topic, given.subscription, map(to_archived_message, messages), idempotency_key=key)

    return post


Offers = Callable[[Collection[str] | None], Iterator[dict[str, Any]]]
"""Yields the messages to send. With ids, it yields the messages with these ids and ignores the filters."""


@dataclass(slots=True)
class Chunk:
    """The message ids of one request. The chunk is stored before the request is sent, and again with the results.

    *sent*, *matched* and *refused* count messages; *matched* are sent messages that the subscription matched. *sent* is
    None before the results are known.
    """

    number: int
    ids: list[str]
    sent: int | None = None
    matched: int = 0
    refused: int = 0


def send(objects: Objects, post: Post, run_id: str, offers: Offers, most: int, total: int) -> dict[str, int]:
    """Send the messages that this run has not sent yet, an interrupted chunk first. Return the counts of the whole run.

    *offers* yields the messages. A request has at most *most* messages. Progress is shown as a part of *total*
    messages. Raises LostRaceError if another process works on the same run.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        stored = [*pool.map(objects.read, objects.sizes(_chunk_key(run_id)))]
    run = sorted((Chunk(**json_of(each)) for each in stored), key=lambda chunk: chunk.number)
    known = {message_id for chunk in run for message_id in chunk.ids}
    before = sum(chunk.sent or 0 for chunk in run)
    if run and run[-1].sent is None:
        interrupted = run.pop()
        run.append(_post_chunk(objects, post, run_id, interrupted, list(offers(interrupted.ids))))
    done = sum(len(chunk.ids) for chunk in run)
    for group in chunks((offer for offer in offers(None) if offer["replay_of"] not in known), most):
        chunk = Chunk(len(run), [offer["replay_of"] for offer in group])
        objects.write(_chunk_key(run_id, chunk.number), json.dumps(asdict(chunk)).encode(), None)
        run.append(_post_chunk(objects, post, run_id, chunk, group))
        done += len(group)
        print_progress(f"{done:,} of {total:,}")
    if before:
        print_progress(f"{before:,} were sent before; another --run-id sends them again")
    sums = {name: sum(getattr(chunk, name) or 0 for chunk in run) for name in ("sent", "matched", "refused")}
    return {"chunks": len(run), **sums, "sent_before": before}


def _chunk_key(run_id: str, number: int | None = None) -> str:
    folder = f"reports/replay/{run_id}/chunks/"
    return folder if number is None else f"{folder}{number}.json"


def _post_chunk(objects: Objects, post: Post, run_id: str, chunk: Chunk, group: Sequence[Mapping[str, Any]]) -> Chunk:
    from tagcast_client import Accepted

    # The key depends on the content, because an erasure may have changed the content of an interrupted chunk.
    results = post(group, sha256(json.dumps([run_id, group]).encode()).hexdigest()) if group else ()
    matched = [each.matched for each in results if isinstance(each, Accepted)]
    ended = replace(chunk, sent=len(matched), matched=sum(map(bool, matched)), refused=len(results) - len(matched))
    objects.replace(_chunk_key(run_id, chunk.number), json.dumps(asdict(ended)).encode())
    return ended


def _parser() -> argparse.ArgumentParser:
    parser = arguments.parser("replay", (__doc__ or "").partition("\n\n")[0], lookback_days=1)
    parser.add_argument("--topic", type=arguments.path_part, required=True)
    parser.add_argument("--subscription", required=True)
    text = "only messages that this filter matches; null: all (default: the subscription's newest archived filter)"
    parser.add_argument("--filter", metavar="JSON", help=text)
    parser.add_argument(
        "--only", metavar="JSON", default="null", help="only messages that also match this filter; null: all"
    )
    parser.add_argument(
        "--preview", type=arguments.truth, default=True, help="true (default): show a preview and send nothing"
    )
    parser.add_argument("--api", metavar="URL", help="URL of the API; required to send")
    parser.add_argument(
        "--rate", type=arguments.positive, default=10.0, help="messages per second (default: %(default)s)"
    )
    parser.add_argument("--chunk", type=int, default=100, help="messages per request (default: %(default)s)")
    parser.add_argument(
        "--run-id",
        type=arguments.path_part,
        help="name of the run; a new name sends all messages again (default: derived from the arguments)",
    )
    parser.add_argument("--sign", type=arguments.truth, default=False, help="true signs requests for AWS (SigV4)")
    parser.add_argument("--region", help="AWS region of the API, to sign for")
    return parser


def _span(parser: argparse.ArgumentParser, given: argparse.Namespace) -> tuple[int, int]:
    """Return the window in milliseconds; unlike other jobs, this one also accepts instants."""
    if given.first is None or given.end is None or given.date is not None or given.lookback_days is not None:
        window = arguments.window(parser, given)
        return window.first_at, window.end_at
    try:
        first_at, end_at = arguments.moment(given.first), arguments.moment(given.end)
    except argparse.ArgumentTypeError as fault:
        parser.error(str(fault))
    if first_at >= end_at:
        parser.error("--to must be later than --from")
    return first_at, end_at


def read_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse *argv*, by default the process's arguments. Raises SystemExit (2) if an argument is bad."""
    parser = _parser()
    given = arguments.parse(parser, argv)
    given.span = _span(parser, given)
    if not given.preview and not given.api:
        parser.error("--api says where to send")
    if not 1 <= given.chunk <= 100:
        parser.error("--chunk must be from 1 to 100")
    given.chosen_by = None if given.filter is None else _filter(parser, given.filter)
    given.only = _filter(parser, given.only)
    return given


def _filter(parser: argparse.ArgumentParser, text: str) -> Filter:
    """Return a filter in its JSON form, or exit with an error."""
    try:
        found: Filter = json.loads(text)
        compile_filter(found)
    except (ValueError, InvalidFilterError) as fault:
        parser.error(f"--filter and --only name filters as JSON, null all messages: {fault}")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Preview or send. Return 0, or 1 if the API refused a message or the run failed."""
    given = read_arguments(argv)
    (first_at, end_at), chosen_by, only = given.span, given.chosen_by, given.only
    archive = Archive.at(open_session(given), given.archive)
    try:
        if given.filter is None:
            chosen_by = current_filter(archive, given.topic, given.subscription, arguments.now_ms())
    except LookupError as fault:
        _parser().error(f"--filter is missing, and {fault.args[0]}")
    filters = (compile_filter(chosen_by), compile_filter(only))
    identity = json.dumps([given.topic, given.subscription, first_at, end_at, chosen_by, only, given.chunk])
    run_id = given.run_id or sha256(identity.encode()).hexdigest()[:12]
    days = [day for day in archive.curated_days(RecordKind.MESSAGES) if _holds(day, first_at, end_at)]
    messages = select_messages(archive.records(RecordKind.MESSAGES, days), given.topic, first_at, end_at)
    counts = preview(messages, filters)
    count = counts["messages"] or 0
    as_json = archive.write_text(json.dumps(counts), "reports", "replay", run_id, "preview.json")
    summary: dict[str, Any] = {"job": "replay", "ok": True, "run_id": run_id, "preview": given.preview, **counts}
    if given.preview:
        seconds = count / given.rate
        print_progress(f"{count:,} messages, {seconds:,.0f} s at {given.rate:g} a second; nothing is sent")
        finish({**summary, "seconds": round(seconds, 1), "html": None, "json": as_json})
        return 0
    from tagcast_client import TagcastError

    def read_offers(ids: Collection[str] | None) -> Iterator[dict[str, Any]]:
        return (
            offers(messages, filters) if ids is None else offers(messages.where(sql.col("message_id").isin(*ids)), ())
        )

    try:
        done = send(archive.objects, poster(given), run_id, read_offers, given.chunk, count)
    except (TagcastError, LostRaceError) as fault:
        finish({**summary, "ok": False, "detail": str(fault), "html": None, "json": as_json})
        return 1
    finish({**summary, "ok": not done["refused"], **done, "html": None, "json": as_json})
    return 1 if done["refused"] else 0


def _holds(day: str, first_at: int, end_at: int) -> bool:
    at = arguments.moment(day)
    return at < end_at and at + DAY_MS > first_at


if __name__ == "__main__" and (code := main()):
    sys.exit(code)

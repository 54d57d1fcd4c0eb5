"""Erase: removes producers' content from selected records, everywhere in the archive; their hashes remain.

The erasable *parts* of a message are its body, properties and keys (:mod:`glue_jobs.erasing.contents`). Without
``--preview false`` the job only reports what it would erase, and where. It stores the selection before it rewrites
anything, so a restarted run with the same arguments continues.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from tagcast.archive.record import RecordKind
from tagcast.ids import accepted_at_of
from tagcast.instant import DAY_MS, rfc3339
from tagcast.topic_settings import RETENTION_S_MAX

from glue_jobs import compact
from glue_jobs.auditing import history
from glue_jobs.auditing.audit_matching import FiltersByTopic
from glue_jobs.erasing import contents
from glue_jobs.erasing.contents import Part
from glue_jobs.erasing.places import (
    FAILED,
    QUARANTINE,
    RAW,
    Eraser,
    RequestedErasure,
    decode_failed,
    names_one_of,
    reports_naming,
    rewrite_object,
    text_of,
)
from glue_jobs.io import arguments, manifests, raw
from glue_jobs.io.manifests import AT_ONCE, GenerationSummary, Manifest
from glue_jobs.io.materialised import materialise
from glue_jobs.io.messages_read import BODIES, filter_keys
from glue_jobs.io.objects import LostRaceError, Objects, json_of, naming, until_won
from glue_jobs.io.ranges import in_ranges
from glue_jobs.io.schemas import SCHEMAS
from glue_jobs.io.session import open_session
from glue_jobs.io.storage import Archive, finish, has_property, print_progress

MESSAGES_MAX = 100_000
"""An erasure has at most 100,000 messages, because their ids go to every worker."""
RECEIPTS_GONE_MS = 5 * DAY_MS
"""A receipt's time to live ends three days after the expiry. DynamoDB deletes the receipt within about two more days.

Five days after its expiry, a message has no pending deliveries, and no buffer contains it.
"""
ATTEMPTS = 5
ACCEPTANCE = ("subscriptions_version", "matched", "accepted_at", "expires_at")
"""Columns that select the filters that may have matched a message."""
MESSAGES = RecordKind.MESSAGES


@dataclass(frozen=True, slots=True)
class MessageSelection:
    """The messages to erase: those with *message_ids*, or those of *topic* with one property if there are no ids.

    The property *name* has the *value*, and the messages were accepted before the instant *before* (ms).
    """

    message_ids: tuple[str, ...] = ()
    topic: str | None = None
    name: str | None = None
    value: str | None = None
    before: int | None = None

    def rows(self, messages: DataFrame) -> DataFrame:
        """Return the selected messages, their replays, and all replays of replays."""
        if self.message_ids:
            # The record of a named message may be gone while a younger replay of it is still there.
            is_named, is_replay = (sql.col(name).isin(*self.message_ids) for name in ("message_id", "replay_of"))
            named = messages.where(is_named | is_replay)
        else:
            named = self._with_property(messages).where(sql.col("topic") == sql.lit(self.topic))
        found = found_last = materialise(named.dropDuplicates(["record_id"]))
        while not found_last.isEmpty():  # Replays of replays, too.
            ids = found_last.select(sql.col("topic"), sql.col("message_id").alias("replay_of")).distinct()
            replays = messages.join(sql.broadcast(ids), ["topic", "replay_of"], "left_semi").select(*named.columns)
            others = replays.dropDuplicates(["record_id"]).join(found.select("record_id"), "record_id", "left_anti")
            found_last = materialise(others.select(*named.columns))
            found = found.unionByName(found_last)
        return found

    def other_topics(self, messages: DataFrame) -> list[dict[str, Any]]:
        """Return how many messages of each other topic have the property, such as dead letters. They are not erased."""
        if self.message_ids:
            return []
        others = self._with_property(messages).where(sql.col("topic") != sql.lit(self.topic))
        counts = others.groupBy("topic").agg(sql.countDistinct("record_id").alias("messages"))
        return [row.asDict() for row in counts.orderBy("topic").collect()]

    def _with_property(self, messages: DataFrame) -> DataFrame:
        is_older = sql.col("accepted_at") < sql.lit(self.before)
        return messages.where(is_older & has_property(self.name or "", self.value or ""))

    def name_of(self, key: str) -> str:
        """Return the name of the erasure, a hash of the selection with the archive's *key*. It reveals no value."""
        identity = json.dumps([sorted(self.message_ids), self.topic, self.name, self.value, self.before])
        return sha256(f"{key}{identity}".encode()).hexdigest()[:16]


def not_yet(rows: Sequence[Any], others: Collection[str], now: int) -> dict[str, int]:
    """Return the ids of messages that cannot be erased yet, each with the instant (ms) from which it can be erased.

    *rows* are records of messages. For ``RECEIPTS_GONE_MS`` after its expiry, a message may still be pending, in a
    buffer of the archive, or in the messages table. *others* are ids without a record; their messages are assumed to
    live as long as a message can.
    """
    ready = {row.message_id: row.expires_at + RECEIPTS_GONE_MS for row in rows}
    longest = 1000 * RETENTION_S_MAX + RECEIPTS_GONE_MS
    ready |= {message_id: accepted_at_of(message_id) + longest for message_id in others}
    return {message_id: at for message_id, at in ready.items() if at > now}


def matching_of(rows: DataFrame, filters: Mapping[str, list[history.FilterInForce]]) -> dict[str, list[str]]:
    """Return the names of the filter versions that match each message, by the message's record id.

    The erasure stores these names, because later audits need them. Names that an earlier erasure stored are included.
    """
    shared = rows.sparkSession.sparkContext.broadcast(dict(filters))

    def judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        topics = FiltersByTopic(shared.value)
        for batch in batches:
            read = ("record_id", "topic", "gone", "matching", *ACCEPTANCE)
            ids, *columns = (batch.column(name).to_pylist() for name in read)
            found = []
            for known, topic, gone, before, version, matched, *life in zip(filter_keys(batch), *columns, strict=True):
                audited = topics[topic].filters_to_audit(version, matched or (), *life)
                found.append(
                    sorted({*(before or ()), *topics[topic].names_of(known, gone or (), tuple(Part), audited)})
                )
            yield pa.RecordBatch.from_arrays(
                [pa.array(ids, pa.string()), pa.array(found, pa.list_(pa.string()))], ["record_id", "matching"]
            )

    gone = sql.map_keys("hashes").alias("gone")
    columns = ("record_id", "topic", "tags", "routing_key", "properties", "matching", *ACCEPTANCE, *BODIES)
    judged = rows.select(gone, *columns).mapInArrow(judge, "record_id string, matching array<string>")
    return {row.record_id: row.matching for row in judged.collect()}


def rewrite_days(
    archive: Archive, days: Sequence[str], change: Callable[[DataFrame], DataFrame], parts: Collection[str] = ()
) -> int:
    """Rewrite each day's messages by *change*, delete every replaced file, and return the number of deleted files.

    *parts* are the parts that *change* removes from all messages; the summaries of the new files name them. If another
    run replaces a day's files meanwhile, this function rewrites the files of that run.
    """
    replaced = 0
    for day in days:
        replaced += until_won(partial(_rewrite_day, archive, day, change, parts), ATTEMPTS)
    archive.objects.purge(manifests.data_prefix(MESSAGES))
    return replaced


def _rewrite_day(archive: Archive, day: str, change: Callable[[DataFrame], DataFrame], parts: Collection[str]) -> int:
    objects = archive.objects
    [before] = manifests.read(objects, MESSAGES, [day])
    written: dict[str, int] = {}
    made = GenerationSummary(0, 0)
    if before.files:
        with manifests.watch(objects, [before]):
            written = _write_day(archive, before, change)
            held = manifests.read_summary(objects, before)
        held = held or made
        made = replace(held, bytes=sum(written.values()), without=sorted({*parts, *held.without}))
    keys = manifests.by_day(objects.sizes(manifests.data_prefix(MESSAGES))).get(day, [])
    stale = [key for key in keys if key not in written]
    if before.files or (stale and before.seen is None):
        # Stale files belong to writers that began before this swap. Their swaps fail, so nothing needs these files.
        try:
            manifests.swap(objects, archive.root, before, sorted(written), made)
        except LostRaceError:
            objects.remove(written)
            raise
    elif stale:  # The manifest is empty and stays so. A swap would change nothing, and stop no concurrent writer.
        long_ago = arguments.now_ms() - compact.KEPT_MS
        stale = [key for key in stale if manifests.began_before(manifests.generation_of(key), long_ago)]
    objects.remove(stale)
    return len([key for key in stale if key.endswith(".parquet")])


def _write_day(archive: Archive, before: Manifest, change: Callable[[DataFrame], DataFrame]) -> dict[str, int]:
    """Write the changed messages of a day as a new generation; return its files with their bytes."""
    columns = [*SCHEMAS[MESSAGES].fieldNames(), "dt"]
    rows = archive.records_of([before], MESSAGES).withColumn("dt", sql.lit(before.day))
    key, file = sql.concat_ws(" ", "dt", "record_id"), sql.input_file_name()
    firsts = [row["first"] for row in rows.groupBy(file).agg(sql.min(key).alias("first")).collect()]
    placed = in_ranges(change(rows), key, sorted(firsts)[1:]).sortWithinPartitions("dt", "record_id")
    generation = manifests.generation_at(arguments.now_ms())
    return archive.write_generation(placed.select(*columns), MESSAGES, generation).get(before.day, {})


def erase_selected(rows: DataFrame, eraser: RequestedErasure) -> DataFrame:
    """Return *rows* in which the contents of the selected messages are erased."""
    ids = rows.sparkSession.createDataFrame([(each,) for each in eraser.matching], "record_id string")
    named = rows.join(sql.broadcast(ids), "record_id", "left_semi").select(*rows.columns)
    rest = rows.join(sql.broadcast(ids), "record_id", "left_anti").select(*rows.columns)
    return rest.unionByName(erase_rows(named, eraser))


def erase_rows(rows: DataFrame, eraser: Eraser) -> DataFrame:
    """Return *rows* after the erasure. *eraser* decides what to erase. Erased columns are null; hashes are added."""
    schema = to_arrow_schema(rows.schema)
    shared = rows.sparkSession.sparkContext.broadcast(eraser)

    def take(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pylist([_erase_row(row, shared.value) for row in batch.to_pylist()], schema)

    return rows.mapInArrow(take, rows.schema)


def _erase_row(row: dict[str, Any], eraser: Eraser) -> dict[str, Any]:
    maps = {name: dict(row[name]) for name in ("properties", "salts", "hashes") if row[name] is not None}
    return eraser.erase_record({**row, **maps}) or row


def raw_keys(archive: Archive, days: Sequence[str], message_ids: frozenset[str]) -> list[str]:
    """Return the keys of the raw files to rewrite for an erasure of messages that were accepted on *days*.

    The ledgers of compaction list the files with records of *days*. A file with a damaged line that contains one of
    *message_ids* is returned, too. So is each uncompacted file, because it may have records of any day.
    """
    if not days:
        return []
    wanted, keys, begin = {*days}, set[str](), compact.first_arrival(min(days))
    for each in _list_arrivals(archive, lambda day: begin <= day):
        compacted = each.compacted
        keys |= {key for key in each.files if not wanted.isdisjoint(compacted.get(key, wanted))}
    return sorted(keys | _find_damaged(archive.objects, message_ids))


def _list_arrivals(archive: Archive, chosen: Callable[[str], bool]) -> list[compact.ArrivalDay]:
    """Return the raw files of the days of arrival for which *chosen* returns true. The days are read in parallel."""
    objects, days = archive.objects, filter(chosen, archive.days("raw", MESSAGES.value))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [*pool.map(lambda day: compact.list_arrived(objects, MESSAGES, [day])[0], days)]


def _find_damaged(objects: Objects, message_ids: frozenset[str]) -> set[str]:
    """Return the raw files whose quarantined lines mention one of the messages. Raises DamagedObjectError.

    Every line must be readable: otherwise the erasure could miss a raw file.
    """
    named = set()
    for key in _quarantined_files(objects):
        stored = objects.read(key)
        with naming(key):
            for line in () if stored is None else filter(None, stored.content.decode().split("\n")):
                file, quoted = (json.loads(line)[name] for name in ("file", "line"))
                if names_one_of(message_ids, quoted):
                    named.add(f"{RAW}{unquote(file).rpartition(RAW)[2]}")
    return named


def _quarantined_files(objects: Objects) -> list[str]:
    return [key for key in objects.sizes(QUARANTINE) if key.endswith(".json")]


def rewrite_files(archive: Archive, keys: Sequence[str], eraser: Eraser) -> Counter[str]:
    """Rewrite the files *keys*, which have one record per line, on all workers.

    Return the number of changed files for each top folder.
    """
    if not keys:
        return Counter()
    context = archive.spark.sparkContext
    shared, opened = context.broadcast(eraser), archive.opened

    def one(key: str) -> tuple[str, bool]:
        objects = opened()
        return key, until_won(partial(rewrite_object, objects, key, shared.value.erase_text), ATTEMPTS)

    found = context.parallelize(keys, max(1, min(len(keys), 1000))).map(one).collect()
    return Counter(key.partition("/")[0] for key, held in found if held)


def failed_records(archive: Archive) -> DataFrame:
    """Return the records of messages that Firehose could not deliver. The archive has no other copy of them."""
    keys, opened = list(archive.objects.sizes(FAILED)), archive.opened
    if not keys:
        return archive.spark.createDataFrame([], SCHEMAS[MESSAGES])

    def lines_of(key: str) -> list[tuple[str]]:
        stored = opened().read(key)
        with naming(key):
            text = "" if stored is None else text_of(stored.content)
        raws = (decode_failed(line)[1] or "" for line in text.split("\n"))
        return [(line,) for raw_text in raws for line in raw_text.split("\n") if line]

    lines = archive.spark.createDataFrame(
        archive.spark.sparkContext.parallelize(keys, min(len(keys), 1000)).flatMap(lines_of), "line string"
    )
    return _messages_in(lines)


def uncompacted_files(archive: Archive) -> dict[str, int]:
    """Return the raw files that no compaction has read, usually those of the last day, with their bytes."""
    return {key: size for each in _list_arrivals(archive, lambda day: True) for key, size in each.unread.items()}


def _messages_in(lines: DataFrame) -> DataFrame:
    return raw.parse_lines(lines, MESSAGES).where("not is_corrupt").select(*SCHEMAS[MESSAGES].fieldNames())


def erase(archive: Archive, eraser: RequestedErasure, days: Sequence[str]) -> dict[str, int]:
    """Erase the selected contents everywhere in the archive. Return the numbers of changed objects, by place.

    The messages were accepted on *days*. A repeated call continues an interrupted one.
    """
    objects = archive.objects
    keys = raw_keys(archive, days, eraser.message_ids)
    held = rewrite_files(archive, [*keys, *objects.sizes(FAILED)], eraser)
    objects.purge(FAILED)
    counts = {"raw_files": held["raw"], "failed_files": held["failed"]}
    print_progress(f"{held.total()} files of lines rewritten")
    counts["curated_files"] = rewrite_days(archive, days, lambda rows: erase_selected(rows, eraser))
    print_progress(f"{counts['curated_files']} curated files replaced")
    # The quarantine is rewritten after the raw files, because it tells which of them have damaged lines.
    counts["quarantined_files"] = rewrite_files(archive, _quarantined_files(objects), eraser).total()
    objects.purge(QUARANTINE)
    counts["reports"] = _remove(objects, reports_naming(objects, eraser.message_ids), "reports/")
    counts["query_results"] = _remove(objects, list(objects.sizes("athena/")), "athena/")
    return counts


def _remove(objects: Objects, keys: Sequence[str], prefix: str) -> int:
    objects.remove(keys)
    objects.purge(prefix)
    return len(keys)


def preview_erasure(archive: Archive, eraser: RequestedErasure, days: Sequence[str]) -> dict[str, int]:
    """Return the numbers of objects that an erasure would rewrite or delete, by place."""
    objects = archive.objects
    ids = archive.spark.createDataFrame([(each,) for each in eraser.matching], "record_id string")
    keys = raw_keys(archive, days, eraser.message_ids)
    lines = archive.lines(keys).withColumn("record_id", sql.get_json_object("line", "$.record_id"))
    held = lines.join(sql.broadcast(ids), "record_id", "left_semi").select("file").distinct().count()
    curated = sum(len(each.files) for each in manifests.read(objects, MESSAGES, days))
    reports = len(reports_naming(objects, eraser.message_ids))
    results = len(objects.sizes("athena/"))
    return {"raw_files": held, "curated_files": curated, "reports": reports, "query_results": results}


def find_unfinished(objects: Objects, name: str) -> list[str]:
    """Return the names of the erasures, except *name*, whose last run did not end.

    Only a run with the same arguments finishes such an erasure. The interrupted run may have erased the properties that
    selected its messages, so another selection may not find them.
    """
    keys = [key for key in objects.sizes("erasures/") if key.endswith("/record.json")]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        records = [*map(json_of, pool.map(objects.read, keys))]
    begun = (record["erasure"] for record in records if record and record["done_at"] is None)
    return sorted({*begun} - {name})


def _selection(parser: argparse.ArgumentParser, given: argparse.Namespace) -> MessageSelection:
    rest = (given.topic, given.property, given.before)
    if given.message and rest == (None, None, None):
        ids = tuple(sorted({each.strip() for each in given.message.split(",")}))
        if not all(re.fullmatch(r"[0-9]{20}", each) for each in ids):
            parser.error("--message takes ids of 20 digits")
        return MessageSelection(ids)
    if given.message or None in rest:
        parser.error("give --message, or --topic, --property and --before")
    name, value = arguments.property_of(parser, given.property)
    return MessageSelection((), given.topic, name, value, given.before)


def _refusal(chosen: Sequence[Any], others: Collection[str], now: int) -> dict[str, Any]:
    """Return why these messages, or ids without a record, cannot be erased now; return {} if they can be erased."""
    if len(chosen) > MESSAGES_MAX:
        return {"detail": f"nothing can be erased of more than {MESSAGES_MAX:,} messages: choose an earlier --before"}
    if early := not_yet(chosen, others, now):
        until = rfc3339(max(early.values()))
        count = "1 message" if len(early) == 1 else f"{len(early)} messages"
        detail = f"nothing can be erased before {until}: {count} may be pending, in a buffer or in the state table"
        return {"detail": detail, "message_ids": sorted(early)[:20]}
    return {}


def read_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse *argv*, by default the process's arguments. Raises SystemExit (2) if an argument is bad."""
    parser = arguments.parser("erase", (__doc__ or "").partition("\n\n")[0], lookback_days=1)
    parser.add_argument("--message", metavar="IDS", help="message ids, separated by commas")
    parser.add_argument("--topic", help="only messages of this topic that have the property")
    parser.add_argument("--property", metavar="NAME=VALUE")
    parser.add_argument(
        "--before", type=arguments.moment, metavar="DAY", help="only messages accepted before this day or instant"
    )
    parser.add_argument("--by", help="requester of the erasure; recorded with the erasure")
    parser.add_argument(
        "--preview", type=arguments.truth, default=True, help="true (default): show a preview and change nothing"
    )
    given = arguments.parse(parser, argv)
    given.selection = _selection(parser, given)
    if not given.preview and not (given.by or "").strip():
        parser.error("--by is required: the name of the requester")
    return given


def main(argv: Sequence[str] | None = None) -> int:
    """Preview or erase. Return 0, or 1 if the erasure is refused, e.g. because a message may still be pending."""
    given = read_arguments(argv)
    selection = given.selection
    archive = Archive.at(open_session(given), given.archive)
    objects, now = archive.objects, arguments.now_ms()
    key = contents.key_of(objects)
    name = selection.name_of(key)
    # Raw files first: a compaction may move their records into curated files meanwhile.
    files = uncompacted_files(archive)
    possible = _days_of(archive, selection)
    archive.suit(possible, raw_bytes=sum(files.values()))
    unread = _messages_in(archive.lines([*files]))
    curated = archive.records(MESSAGES, possible)
    every = curated.unionByName(unread).unionByName(failed_records(archive))
    rows = selection.rows(every).cache()
    chosen = (
        rows.select("record_id", "topic", "message_id", "accepted_at", "expires_at").limit(MESSAGES_MAX + 1).collect()
    )
    others = frozenset(selection.message_ids).difference(row.message_id for row in chosen)
    summary: dict[str, Any] = {"job": "erase", "ok": False, "erasure": name, "preview": given.preview}
    summary |= {"messages": len(chosen), "unknown": len(others), "unfinished": find_unfinished(objects, name)}
    if refusal := _refusal(chosen, others, now):
        finish({**summary, **refusal, "html": None})
        return 1
    summary["other_topics"] = selection.other_topics(every)
    former = json_of(objects.read(_key(name, "asked")))
    filters = history.filters_in_force(archive.records(RecordKind.SUBSCRIPTIONS))
    matching = {**former.get("matching", {}), **matching_of(rows, filters)}
    instants = [*(row.accepted_at for row in chosen), *map(accepted_at_of, others)]
    days = sorted({*former.get("days", ()), *(rfc3339(at)[:10] for at in instants)})
    eraser = RequestedErasure(key, tuple(Part), matching, name, others)
    if given.preview:
        counts = preview_erasure(archive, eraser, days)
        print_progress(f"{len(matching)} messages of {len(days)} days; nothing is changed")
        finish({**summary, "ok": True, "days": days, **counts, "html": None})
        return 0
    record = {
        "erasure": name, "asked_by": former.get("asked_by", given.by), "asked_at": former.get("asked_at", rfc3339(now)),
        "messages": len(matching), "days": days, "parts": [part.value for part in Part], "done_at": None,
    }  # fmt: skip
    objects.replace(_key(name, "asked"), json.dumps({**record, "matching": matching}).encode())
    objects.replace(_key(name, "record"), json.dumps(record).encode())
    counts = erase(archive, eraser, days)
    # A later run may erase more, so each run writes its own `done_at`.
    objects.replace(_key(name, "record"), json.dumps({**record, "done_at": rfc3339(arguments.now_ms())}).encode())
    print_progress(f"{len(matching)} messages erased; with MessagesPointInTimeRecovery, backups keep them 35 days")
    finish({**summary, "ok": True, "messages": len(matching), "days": days, **counts, "html": None})
    return 0


def _days_of(archive: Archive, selection: MessageSelection) -> list[str]:
    """Return the possible days of acceptance of the selected messages and their replays."""
    days = archive.curated_days(MESSAGES)
    if not selection.message_ids:
        return days
    first = min(int(each) >> 22 for each in selection.message_ids)
    return [day for day in days if arguments.moment(day) + DAY_MS > first]


def _key(name: str, what: str) -> str:
    return f"erasures/{name}/{what}.json"


if __name__ == "__main__" and (code := main()):
    sys.exit(code)

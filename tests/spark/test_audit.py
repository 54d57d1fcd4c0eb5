"""The audit finds each kind of broken promise, and nothing in an archive that keeps them all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tagcast.archive.record import RecordKind

from glue_jobs import audit, compact
from glue_jobs.auditing import merkle
from glue_jobs.io import session
from glue_jobs.io.schemas import SCHEMAS
from glue_jobs.io.storage import Archive
from tests.spark.conftest import Bucket
from tests.spark.story import (
    DAY,
    LIFE_MS,
    NOON,
    Record,
    added,
    end,
    filter_version,
    lane,
    message,
    removed,
    settings,
    subscribed,
    wait,
)

APPLE = '{"kind": "tags", "tags": ["apple"]}'
PEAR = '{"kind": "tags", "tags": ["pear"]}'


@dataclass
class Plot:
    """What one topic did."""

    messages: list[Record] = field(default_factory=list)
    deliveries: list[Record] = field(default_factory=list)
    subscriptions: list[Record] = field(default_factory=list)
    lanes: list[Record] = field(default_factory=list)


def retried(topic: str, gaps_s: tuple[float, ...], *, final: str | None = "delivered", **policy: Any) -> Plot:
    """One message that failed at first and was tried again after *gaps_s*."""
    one = message(1, topic)
    plot = Plot([one], [], subscribed(topic, **policy), [lane(topic, NOON)])
    after = 50
    plot.deliveries.append(wait(one, attempts=1, after_ms=after))
    for number, gap in enumerate(gaps_s, 2):
        after += round(gap * 1000)
        last = number == len(gaps_s) + 1
        if last and final is not None:
            plot.deliveries.append(end(one, state=final, attempts=number, after_ms=after))
        else:
            plot.deliveries.append(wait(one, attempts=number, after_ms=after))
    plot.lanes.append(lane(topic, NOON + after + 1000, "active", "blocked"))
    return plot


def backlog(topic: str, second_tried_ms: int, **more: Any) -> Plot:
    """Two messages in one backlog: the first was delivered 60 s later, the second tried after *second_tried_ms*."""
    one, two = message(1, topic), message(2, topic)
    told = [
        wait(one, attempts=1),
        wait(two, position=1),
        end(one, attempts=2, after_ms=60_050),
        end(two, attempts=1, after_ms=second_tried_ms),
    ]
    lanes = [lane(topic, NOON), lane(topic, NOON + 70_000, "active", "blocked")]
    return Plot([one, two], told, subscribed(topic, **more), lanes)


def subscribed_since(topic: str, since: int, filter: str, **more: Any) -> list[Record]:
    """A subscription that was made after the messages of its topic."""
    return [settings(topic, **more), filter_version(topic, 0, filter, since)]


def kept() -> dict[str, Plot]:
    """Plots that keep every promise, some of them barely."""
    pulled, added_late = message(1, "pulled"), message(1, "added", matched=())
    acknowledged = message(1, "acknowledged_late")
    plain, live = message(1, "plain", matched=(0, 1)), message(1, "live", at=NOON + 3_600_000)
    both = Plot(
        [plain], [end(plain, 0, round_at=NOON + 5), end(plain, 1)], subscribed("plain") + subscribed("plain", 1)
    )
    skipped, gone = message(1, "skipped"), message(1, "gone")
    manual = retried("manual", (5,))
    manual.lanes.append(lane("manual", NOON + 3000, "blocked", "blocked", 2))
    # Settings that changed in between bound by the weakest.
    changed = retried("changed", (60, 20))
    changed.subscriptions.append(settings("changed", at=NOON + 65_000, version=2, interval_s=20))
    # It was given up by the settings of before.
    raised = retried("raised", (60, 61, 60), final="discarded")
    raised.subscriptions.append(settings("raised", at=NOON + 100_000, version=2, max_retries=10))
    refiltered = message(1, "refiltered", subscriptions_version=2, matched=())
    late = message(1, "late_removal", matched=(), at=NOON + 10_000)
    judged = message(1, "judged")
    function = '{"kind": "function", "function": "rate"}'
    replay = message(1, "replay", matched=(), replay_of="00000000000000000001")
    return {
        "plain": both,
        "live": Plot([live], [], subscribed("live")),
        "retried": retried("retried", (60, 61, 60), final="discarded"),
        "manual": manual,
        "changed": changed,
        "raised": raised,
        "backlog": backlog("backlog", 60_090),
        "pulled": Plot([pulled], [end(pulled, attempts=3, after_ms=200_000)], subscribed("pulled", protocol="pull")),
        "acknowledged_late": Plot(
            [acknowledged],
            [end(acknowledged, attempts=2, after_ms=LIFE_MS + 600_000)],
            subscribed("acknowledged_late", protocol="pull"),
        ),
        "pulled_in_any_order": backlog("pulled_in_any_order", 30_000, protocol="pull"),
        "added": Plot(
            [added_late],
            [added(added_late, version=2), end(added_late, after_ms=100_000)],
            [
                *subscribed_since("added", 2, PEAR, protocol="pull", consume_from=NOON),
                filter_version("added", 0, APPLE, since=3, version=2),
            ],
        ),
        "skipped": Plot(
            [skipped],
            [wait(skipped, attempts=1), end(skipped, state="cancelled", after_ms=9000)],
            subscribed("skipped"),
            [lane("skipped", NOON), lane("skipped", NOON + 9000, "blocked", "blocked", 2)],
        ),
        "gone": Plot([gone], [end(gone, state="cancelled")], [*subscribed("gone"), removed("gone", NOON)]),
        "refiltered": Plot(
            [refiltered],
            [],
            [*subscribed("refiltered", filter=APPLE), filter_version("refiltered", 0, PEAR, since=2, version=2)],
        ),
        "late_removal": Plot([late], [], [*subscribed("late_removal"), removed("late_removal", NOON + 10_500)]),
        "judged": Plot([judged], [end(judged, state="filtered")], subscribed("judged", filter=function)),
        "replay": Plot([replay], [], subscribed("replay")),
    }


def planted() -> dict[str, Plot]:
    """One plot for each kind of violation, in a topic of the kind's name."""
    plots = {kind: Plot([message(1, kind)], [], subscribed(kind)) for kind in audit.KINDS}
    one = {kind: plot.messages[0] for kind, plot in plots.items()}
    for kind in ("unmatched", "attempt_unrecorded", "not_in_filter", "removed_owed", "overtaken"):
        plots[kind].lanes = [lane(kind, NOON)]
    plots["ended_twice"].deliveries = [
        end(one["ended_twice"]),
        end(one["ended_twice"], state="expired", after_ms=LIFE_MS + 1, row_version=3),
    ]
    plots["removed_owed"].deliveries = [
        wait(one["removed_owed"], attempts=1),
        wait(one["removed_owed"], attempts=1, removed_by="ttl", record_id="x"),
    ]
    plots["unmatched"].deliveries = [end(one["unmatched"]), end(one["unmatched"], 7)]
    plots["orphan"].deliveries = [end(one["orphan"]), end(message(2, "orphan"))]
    plots["after_expiry"].deliveries = [end(one["after_expiry"], after_ms=LIFE_MS + 17_000)]
    plots["expired_early"].deliveries = [end(one["expired_early"], state="expired", after_ms=LIFE_MS - 60_000)]
    plots["too_many_attempts"] = retried("too_many_attempts", (60,) * 4)
    plots["discarded_early"] = retried("discarded_early", (60,), final="discarded")
    plots["too_soon"] = retried("too_soon", (60, 30))
    plots["attempt_unrecorded"].deliveries = [
        wait(one["attempt_unrecorded"], attempts=1),
        end(one["attempt_unrecorded"], attempts=3, after_ms=200_000),
    ]
    plots["cancelled_unasked"].deliveries = [end(one["cancelled_unasked"], state="cancelled")]
    plots["filtered_unasked"].deliveries = [end(one["filtered_unasked"], state="filtered")]
    plots["not_in_filter"].deliveries = [end(one["not_in_filter"])]
    plots["not_in_filter"].subscriptions = subscribed("not_in_filter", filter=PEAR)
    plots["missed"] = Plot([message(1, "missed", matched=())], [], subscribed("missed", filter=APPLE))
    plots["out_of_order"] = backlog("out_of_order", 30_000)
    for kind, filter, asked in (("late_not_in_filter", PEAR, 0), ("late_unasked", APPLE, NOON + 1)):
        late = message(1, kind, matched=())
        group = subscribed_since(kind, 2, filter, protocol="pull", consume_from=asked)
        plots[kind] = Plot([late], [added(late), end(late, after_ms=100_000)], group)
    blocked, direct = one["overtaken"], message(2, "overtaken", at=NOON + 20_000)
    plots["overtaken"].messages.append(direct)
    plots["overtaken"].deliveries = [
        wait(blocked, attempts=1),
        end(blocked, attempts=2, after_ms=60_050),
        end(direct, round_at=direct["accepted_at"] + 10),
    ]
    plots["overtaken"].lanes.append(lane("overtaken", NOON + 61_000, "active", "blocked"))
    return plots


def archived(bucket: Bucket, plots: dict[str, Plot]) -> None:
    for kind in RecordKind:
        records = [record for plot in plots.values() for record in getattr(plot, kind.value)]
        bucket.put(kind.value, DAY, records)
    assert compact.main(["--archive", bucket.uri, "--from", "2026-11-20", "--to", "2026-11-21"]) == 0


def audited(bucket: Bucket, *more: str) -> tuple[int, dict[str, Any]]:
    code = audit.main(["--archive", bucket.uri, "--date", DAY, "--as-of", "2026-11-21T12:30:00Z", *more])
    [key] = [key for key in bucket.keys("reports/audit/") if key.endswith("certificate.json")]
    return code, json.loads(bucket.text(key))


@pytest.fixture(scope="module")
def everything(spark: SparkSession, new_bucket: Callable[[], Bucket]) -> tuple[int, dict[str, Any], Bucket]:
    """What an audit says of all plots, whose rows Spark holds as those of a large archive."""
    bucket = new_bucket()
    archived(bucket, kept() | planted())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "TINY_BYTES_MAX", -1)
        return *audited(bucket), bucket


@pytest.mark.parametrize("kind", audit.KINDS)
def test_each_kind_of_broken_promise_is_found_where_it_was_planted(
    everything: tuple[int, dict[str, Any], Bucket], kind: str
) -> None:
    code, certificate, _ = everything
    found = [each for each in certificate["listed"] if each["topic"] == kind]
    assert [each["kind"] for each in found] == [kind], found
    assert certificate["by_kind"][kind] == 1
    assert code == 1


@pytest.mark.nightly
def test_an_audit_says_the_same_wherever_the_rows_are_held(everything: tuple[int, dict[str, Any], Bucket]) -> None:
    """What Spark keeps of a large archive, the driver holds of a tiny one."""
    code, certificate, bucket = everything
    assert audited(bucket) == (code, certificate)


def test_what_keeps_its_promises_is_not_accused(everything: tuple[int, dict[str, Any], Bucket]) -> None:
    _, certificate, _ = everything
    assert [each for each in certificate["listed"] if each["topic"] in kept()] == []
    assert certificate["counts"]["within_life"] == 1
    assert certificate["counts"]["matches_judged_later"] == 1
    assert certificate["counts"]["misses_not_provable"] == 1
    assert certificate["counts"]["replays"] == 1
    assert certificate["counts"]["late_entries"] == 3


def test_every_violation_is_in_the_table(everything: tuple[int, dict[str, Any], Bucket], spark: SparkSession) -> None:
    _, certificate, bucket = everything
    table = spark.read.parquet(f"file://{bucket.uri}/reports/audit/violations")
    assert table.count() == certificate["violations"] == len(audit.KINDS)


def test_anybody_can_compute_the_merkle_root_again(
    everything: tuple[int, dict[str, Any], Bucket], spark: SparkSession
) -> None:
    _, certificate, bucket = everything
    roots = []
    for part in certificate["partitions"]:
        kind, day = RecordKind(part["kind"]), part["dt"]
        rows = Archive.at(spark, bucket.uri).records(kind, [day]).collect()
        leaves = [merkle.leaf_of(row.asDict(recursive=True)) for row in rows]
        root = merkle.root_of(list(merkle.bucket_digests(leaves).values()))
        assert (len(rows), root) == (part["records"], part["root"])
        roots.append(root)
    assert merkle.root_of(roots) == certificate["merkle_root"]


def test_a_line_of_a_record_is_the_same_in_spark_and_in_plain_python(spark: SparkSession) -> None:
    bodies = ["\x00\x1f\x7f", 'a"b\\c\\u001f/d', "ä€😀\u2028", "\r\n\t\b\f", "\\\x1b"]
    properties = {"b": bodies[1], "a": ""}
    record = message(1, tags=bodies, properties=properties, body="".join(bodies), salt="5a" * 16)
    frame = spark.createDataFrame(
        [tuple(record.get(name) for name in SCHEMAS[RecordKind.MESSAGES].fieldNames())], SCHEMAS[RecordKind.MESSAGES]
    )
    [(_, _, _, root)] = merkle.day_roots(frame, RecordKind.MESSAGES)
    [row] = frame.collect()
    leaf = merkle.leaf_of(row.asDict(recursive=True))
    assert root == merkle.root_of(list(merkle.bucket_digests([leaf]).values()))

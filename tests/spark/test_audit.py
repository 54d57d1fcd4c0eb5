"""The audit finds each kind of broken promise, and nothing in an archive that keeps them all."""

import json
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tagcast.archive.record import RecordKind

from glue_jobs import audit, compact, erase, retain
from glue_jobs.auditing import merkle
from glue_jobs.auditing.audit_entries import Terms
from glue_jobs.auditing.audit_matching import TopicFilters, judge_batches
from glue_jobs.auditing.history import FOREVER, FilterInForce
from glue_jobs.erasing.places import certificates_of_one
from glue_jobs.io import arguments, session
from glue_jobs.io.objects import FolderObjects
from glue_jobs.io.schemas import SCHEMAS
from glue_jobs.io.storage import Archive
from tests.spark.conftest import Bucket
from tests.spark.story import (
    APPLE,
    DAY,
    LIFE_MS,
    NOON,
    PEAR,
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


def one_run(topic: str, state: str, **life: Any) -> Plot:
    """Two messages of one run: the first was not pushed, and its end was written with that of the second."""
    one, two = message(1, topic, **life), message(2, topic)
    told = [
        wait(one),
        wait(two, position=1),
        end(one, state=state, after_ms=60_000),
        end(two, after_ms=45_000, changed_at=NOON + 60_000),
    ]
    function = '{"kind": "function", "function": "rate"}'
    lanes = [lane(topic, NOON), lane(topic, NOON + 70_000, "active", "blocked")]
    return Plot([one, two], told, subscribed(topic, filter=function), lanes)


def subscribed_since(topic: str, since: int, filter: str, **more: Any) -> list[Record]:
    """A subscription that was made after the messages of its topic. Its versions begin at the topic's."""
    at = more.setdefault("at", NOON + 30_000)
    return [settings(topic, version=since, **more), filter_version(topic, 0, filter, since, since, at)]


def kept() -> dict[str, Plot]:
    """Plots that keep every promise, some of them barely."""
    pulled, added_late = message(1, "pulled"), message(1, "added", matched=())
    acknowledged, afterwards = message(1, "acknowledged_late"), message(1, "afterwards")
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
    judged, dropped = message(1, "judged"), message(1, "dropped")
    function = '{"kind": "function", "function": "rate"}'
    unreadable = message(1, "unreadable")
    lost, probe = message(1, "probed"), message(2, "probed", at=NOON + 59_990)
    replay = message(1, "replay", matched=(), replay_of="00000000000000000001")
    return {
        "plain": both,
        "live": Plot([live], [], subscribed("live")),
        "retried": retried("retried", (60, 61, 60), final="discarded"),
        "manual": manual,
        "changed": changed,
        "raised": raised,
        "backlog": backlog("backlog", 60_090),
        "filtered_before": one_run("filtered_before", "filtered"),
        "expired_before": one_run("expired_before", "expired", expires_at=NOON + 40_000),
        "pulled": Plot([pulled], [end(pulled, attempts=3, after_ms=200_000)], subscribed("pulled", protocol="pull")),
        "acknowledged_late": Plot(
            [acknowledged],
            [end(acknowledged, attempts=2, after_ms=LIFE_MS + 600_000)],
            subscribed("acknowledged_late", protocol="pull"),
        ),
        # Its clock was wrong: its attempt ended before its round began, which was when the lane was open again.
        "afterwards": Plot(
            [afterwards],
            [end(afterwards, after_ms=30_000, round_at=NOON + 120_000)],
            subscribed("afterwards"),
            [lane("afterwards", NOON), lane("afterwards", NOON + 60_000, "active", "blocked")],
        ),
        # Its worker had the lane while a new message proved that the receiver answers again.
        "probed": Plot(
            [lost, probe],
            [wait(lost, attempts=1), end(lost, attempts=2, after_ms=63_000), end(probe, round_at=NOON + 60_000)],
            subscribed("probed", strategy="INDEPENDENT_RETRY", interval_s=None),
            [lane("probed", NOON, "lost_contact"), lane("probed", NOON + 63_000, "active", "lost_contact")],
        ),
        "pulled_in_any_order": backlog("pulled_in_any_order", 30_000, protocol="pull"),
        "added": Plot(
            [added_late],
            [added(added_late, version=3), end(added_late, after_ms=100_000)],
            [
                *subscribed_since("added", 2, PEAR, protocol="pull", start_from=NOON),
                filter_version("added", 0, APPLE, since=3, version=3, at=NOON + 60_000),
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
        # Its outcome, filter_error, had no room in the message's row.
        "dropped": Plot([dropped], [end(dropped, state="discarded")], subscribed("dropped", filter=function)),
        "judged": Plot([judged], [end(judged, state="filtered")], subscribed("judged", filter=function)),
        "replay": Plot([replay], [], subscribed("replay")),
        "unreadable": Plot([unreadable], [end(unreadable)], subscribed("unreadable", filter='{"kind": "later"}')),
    }


def planted() -> dict[str, Plot]:
    """One plot for each kind of violation, in a topic of the kind's name."""
    plots = {kind: Plot([message(1, kind)], [], subscribed(kind)) for kind in audit.KINDS}
    one = {kind: plot.messages[0] for kind, plot in plots.items()}
    for kind in ("unmatched", "attempt_unrecorded", "not_in_filter", "removed_pending", "overtaken"):
        plots[kind].lanes = [lane(kind, NOON)]
    plots["ended_twice"].deliveries = [
        end(one["ended_twice"]),
        end(one["ended_twice"], state="expired", after_ms=LIFE_MS + 1, row_version=3),
    ]
    plots["removed_pending"].deliveries = [
        wait(one["removed_pending"], attempts=1),
        wait(one["removed_pending"], attempts=1, removed_by="ttl", record_id="x"),
    ]
    plots["unmatched"].deliveries = [end(one["unmatched"]), end(one["unmatched"], 7)]
    lost = message(3, "late_orphan")
    plots["orphan"].deliveries = [end(one["orphan"]), end(message(2, "orphan"))]
    plots["late_orphan"] = Plot([], [added(lost), end(lost, after_ms=100_000)], subscribed("late_orphan"))
    plots["unattempted"].deliveries = [end(one["unattempted"], attempts=0)]
    plots["before_acceptance"].deliveries = [end(one["before_acceptance"], after_ms=-1_001)]
    plots["no_filter"].deliveries = [end(one["no_filter"])]
    plots["no_filter"].subscriptions = [settings("no_filter")]
    plots["outdated"] = Plot(
        [message(1, "outdated", matched=())], [], subscribed_since("outdated", 2, PEAR, at=NOON - 3_600_001)
    )
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
        group = subscribed_since(kind, 2, filter, protocol="pull", start_from=asked)
        plots[kind] = Plot([late], [added(late, version=2), end(late, after_ms=100_000)], group)
    blocked, direct = one["overtaken"], message(2, "overtaken", at=NOON + 20_000)
    plots["overtaken"].messages.append(direct)
    plots["overtaken"].deliveries = [
        wait(blocked, attempts=1),
        end(blocked, attempts=2, after_ms=60_050),
        end(direct, round_at=direct["accepted_at"] + 10),
    ]
    plots["overtaken"].lanes.append(lane("overtaken", NOON + 61_000, "active", "blocked"))
    return plots


def by_contents() -> dict[str, Plot]:
    """Wrong matches by filters of properties and bodies, and what nobody can judge: a body that was never kept."""
    expensive = '{"kind": "sql92", "expression": "price > 3"}'
    first = '{"kind": "event_pattern", "pattern": {"n": [1]}}'
    known: dict[str, Any] = {"properties": {"price": "5"}, "body": '{"n": 2}'}
    pending = {name: message(1, name, **known) for name in ("not_in_body", "never_kept")}
    del pending["never_kept"]["body"]
    plots = {name: Plot([one], [end(one)], subscribed(name, filter=first)) for name, one in pending.items()}
    missed = message(1, "missed_property", matched=(), **known)
    plots["missed_property"] = Plot([missed], [], subscribed("missed_property", filter=expensive))
    for name, of in (("late_not_in_body", known), ("late_never_kept", {})):
        late = message(1, name, matched=(), **of)
        group = subscribed_since(name, 2, first, protocol="pull", start_from=0)
        plots[name] = Plot([late], [added(late, version=2), end(late, after_ms=100_000)], group)
    return plots


EXPECTED = dict.fromkeys(audit.KINDS, 2) | dict.fromkeys(("not_in_filter", "missed", "late_not_in_filter", "orphan"), 4)
"""Violations of each kind that are planted, their twins among them."""
TWIN = 1_000_000


def with_contents(plots: dict[str, Plot]) -> dict[str, Plot]:
    """Return the plots, whose messages have something that can go."""
    for plot in plots.values():
        for each in plot.messages:
            each |= {"properties": {"customer": "ada"}, "body": '{"dear": "ada"}'}
    return plots


def twins(plots: dict[str, Plot]) -> dict[str, Plot]:
    """Return the same plots of topics and messages of their own."""

    def twin(record: Record) -> Record:
        made = dict(record)
        for name in ("topic", "topic_id"):
            if name in made:
                made[name] += "-twin"
        if "message_id" in made:
            made["message_id"] = f"{int(record['message_id']) + TWIN:020d}"
        first, dot, rest = record["record_id"].partition(".")
        made["record_id"] = (
            f"{first}-twin{dot}{rest.replace(record.get('message_id', '-'), made.get('message_id', '-'))}"
        )
        return made

    return {
        f"{topic}-twin": Plot(*([*map(twin, getattr(plot, each.name))] for each in fields(plot)))
        for topic, plot in plots.items()
    }


def archived(bucket: Bucket, plots: dict[str, Plot]) -> None:
    for kind in RecordKind:
        records = [record for plot in plots.values() for record in getattr(plot, kind.value)]
        bucket.put(kind.value, DAY, records)
    assert compact.main(["--archive", bucket.uri, "--from", "2026-11-20", "--to", "2026-11-21"]) == 0


NOW = "2026-11-21T20:30:00.000Z"


def audited(bucket: Bucket, first: str = DAY) -> tuple[int, dict[str, Any]]:
    """What an audit says at ``NOW`` that is asked to take the archive for complete a day later."""
    window = ("--from", first, "--to", "2026-11-22")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arguments, "now_ms", lambda: arguments.moment(NOW))
        code = audit.main(["--archive", bucket.uri, *window, "--as-of", "2026-11-22T12:30:00Z"])
    [key] = [key for key in bucket.keys(f"reports/audit/{first}") if key.endswith("certificate.json")]
    return code, json.loads(bucket.text(key))


@pytest.fixture(scope="module")
def everything(spark: SparkSession, new_bucket: Callable[[], Bucket]) -> tuple[int, dict[str, Any], Bucket]:
    """What an audit says of all plots, whose rows Spark holds, and plans adapts, as those of a large archive."""
    bucket = new_bucket()
    wrong = with_contents(planted()) | by_contents()
    archived(bucket, with_contents(kept()) | wrong | twins(wrong))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "TINY_BYTES_MAX", -1)
        patch.setitem(session.SMALL, "spark.sql.adaptive.enabled", "true")
        return *audited(bucket), bucket


@pytest.mark.parametrize("kind", audit.KINDS)
def test_each_kind_of_broken_promise_is_found_where_it_was_planted(
    everything: tuple[int, dict[str, Any], Bucket], kind: str
) -> None:
    code, certificate, _ = everything
    found = [each for each in certificate["listed"] if each["topic"] in (kind, f"{kind}-twin")]
    assert [each["kind"] for each in found] == [kind] * 2, found
    assert certificate["by_kind"][kind] == EXPECTED[kind]
    assert code == 1


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_after_erasures_and_retention_an_audit_finds_what_it_found_wherever_the_rows_are_held(
    everything: tuple[int, dict[str, Any], Bucket], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twins are erased, the others lose bodies and properties by their age.

    What Spark keeps of a large archive, the driver holds of a tiny one: the second audit is made like that.
    """
    code, certificate, bucket = everything
    monkeypatch.setattr(arguments, "now_ms", lambda: NOON + 20 * LIFE_MS)
    wrong = twins(planted() | by_contents())
    ids = {each["message_id"] for plot in wrong.values() for each in (*plot.messages, *plot.deliveries)}
    given = ["--archive", bucket.uri, "--preview", "false"]
    assert erase.main([*given, "--message", ",".join(ids), "--by", "privacy"]) == 0
    assert retain.main([*given, "--bodies-days", "7", "--properties-days", "7"]) == 0
    messages = Archive.at(spark, bucket.uri).records(RecordKind.MESSAGES)
    assert messages.where("coalesce(body, body_base64) is not null or properties is not null").count() == 0

    again, after = audited(bucket)
    told = {"erased", "bodies_gone", "properties_gone"}
    same = [
        {key: value for key, value in each.items() if key not in ("counts", "erasures")}
        for each in (certificate, after)
    ]
    counts = [{key: value for key, value in each["counts"].items() if key not in told} for each in (certificate, after)]
    assert (again, same[1], counts[1]) == (code, same[0], counts[0])
    erased = sum(len(plot.messages) for plot in wrong.values())
    assert [each["messages"] for each in after["erasures"]] == [erased] == [after["counts"]["erased"]]
    plots = with_contents(kept() | planted()) | by_contents()
    aged = [each for plot in plots.values() for each in plot.messages]
    assert after["counts"]["bodies_gone"] == sum("body" in each for each in aged)
    assert after["counts"]["properties_gone"] == sum("properties" in each for each in aged)


def test_an_audit_judges_no_life_that_is_not_over_whatever_it_is_asked(
    everything: tuple[int, dict[str, Any], Bucket],
) -> None:
    _, certificate, _ = everything
    assert (certificate["as_of"], certificate["counts"]["within_life"]) == (NOW, 1)
    assert [each for each in certificate["listed"] if each["topic"] == "live"] == []


def test_a_certificate_names_the_days_of_which_it_saw_no_message(
    everything: tuple[int, dict[str, Any], Bucket],
) -> None:
    _, certificate, bucket = everything
    assert certificate["days_without_messages"] == ["2026-11-21"]
    [page] = [key for key in bucket.keys(f"reports/audit/{DAY}_2026-11-21/") if key.endswith("index.html")]
    assert "The archive has no message of 2026-11-21" in bucket.text(page)


def test_what_keeps_its_promises_is_not_accused(everything: tuple[int, dict[str, Any], Bucket]) -> None:
    _, certificate, _ = everything
    assert [each for each in certificate["listed"] if each["topic"] in kept()] == []
    assert certificate["counts"]["matches_judged_later"] == 6
    assert certificate["counts"]["misses_not_provable"] == 1
    assert certificate["counts"]["replays"] == 1
    assert certificate["counts"]["unreadable_filters"] == 1
    assert certificate["counts"]["late_entries"] == 9


def test_what_reads_a_body_that_was_never_kept_is_counted_apart(everything: tuple[int, dict[str, Any], Bucket]) -> None:
    _, certificate, _ = everything
    assert [each for each in certificate["listed"] if "never_kept" in each["topic"]] == []
    assert (certificate["counts"]["unjudged_without_body"], certificate["counts"]["late_unjudged"]) == (2, 2)


def test_every_violation_is_in_the_table(everything: tuple[int, dict[str, Any], Bucket], spark: SparkSession) -> None:
    _, certificate, bucket = everything
    table = spark.read.parquet(f"file://{bucket.uri}/reports/audit/violations")
    assert table.count() == certificate["violations"] == sum(EXPECTED.values())


def test_a_violation_stays_in_the_table_when_later_days_are_audited(
    everything: tuple[int, dict[str, Any], Bucket],
) -> None:
    """The messages were accepted on the first day, and some did not end by their expiry on the next one."""
    _, certificate, bucket = everything
    table = bucket.keys("reports/audit/violations/dt=")
    assert {key.split("/")[3] for key in table} == {f"dt={DAY}"}
    assert max(each["at"] for each in certificate["listed"]) > NOON + LIFE_MS // 2

    code, later = audited(bucket, "2026-11-21")

    assert (code, later["violations"]) == (audit.NOTHING_JUDGED, 0)
    assert bucket.keys("reports/audit/violations/dt=") == table


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


def test_a_certificate_names_the_records_that_it_could_not_read(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    for key in (
        f"quarantine/lanes/dt={DAY}/1.json",
        f"failed/messages/x/dt={DAY}/1",
        "quarantine/lanes/dt=2026-11-19/1",
    ):
        objects.replace(key, b"{}")

    aside = audit.find_set_aside(objects, [DAY])

    assert aside == [f"failed/messages/x/dt={DAY}", f"quarantine/lanes/dt={DAY}"]


def judged(filter: str | None, *instants: tuple[int, tuple[int, ...]]) -> dict[str, int]:
    """Return the counts of messages by (ms after noon, matched), of a topic whose subscription was deleted at noon."""
    records = [message(number, at=NOON + at, matched=matched) for number, (at, matched) in enumerate(instants)]
    names = ("topic", "message_id", "accepted_at", "subscriptions_version", "matched")
    columns: dict[str, Any] = {name: [each[name] for each in records] for name in names}
    columns |= {name: pa.nulls(len(records), pa.string()) for name in ("replay_of", "erasure", "routing_key")}
    columns |= {name: pa.nulls(len(records), pa.list_(pa.string())) for name in ("gone", "matching", "tags")}
    columns |= {"matched": pa.array(columns["matched"], pa.list_(pa.int32()))}
    columns |= {"properties": pa.nulls(len(records), pa.map_(pa.string(), pa.string()))}
    filters = {"fruit": [FilterInForce(0, filter, 1, FOREVER, NOON, False, 1)]}
    [told] = judge_batches(iter([pa.RecordBatch.from_pydict(columns)]), filters, Terms(NOON + LIFE_MS, 1000))
    return {row["kind"]: row["number"] for row in told.to_pylist() if row["number"]}


def test_a_filter_is_not_judged_later_than_an_hour_after_the_deletion_of_its_subscription() -> None:
    later_ms = 3_600_001
    told = judged(None, (-1_001, ()), (0, ()), (later_ms, ()), (later_ms, (0,)))
    assert told == {"missed": 1, "misses_not_provable": 1, "evaluated": 2, "no_filter": 1}
    assert judged(PEAR, (0, ()), (later_ms, ())) == {"evaluated": 1}


def test_bodies_are_not_remembered() -> None:
    pattern = '{"kind": "event_pattern", "pattern": {"a": [1]}}'
    filters = TopicFilters([FilterInForce(0, pattern, 1, FOREVER, None, False, 1)])
    tracemalloc.start()
    for number in range(50):
        assert filters.matching(((), None, (), b'{"a": 1, "b": "%0100000d"}' % number)) == (0,)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000


def test_of_a_topic_s_versions_only_the_last_ones_are_in_memory() -> None:
    """Of 20,000 subscriptions and 500 changes a day each task would remember 1.3 GB."""
    kept = [FilterInForce(number, None, 1, FOREVER, None, False) for number in range(1_000)]
    gone = [FilterInForce(1_000 + at, None, at, FOREVER, at, False) for at in range(1, 1_000)]
    filters = TopicFilters([*kept, *gone])
    tracemalloc.start()
    for at in range(1, 1_000):
        assert len(filters.in_force(at)) == 1_000 + at
        assert len(filters.removed_before(at)) == at - 1
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 128 * 2_000 * 100


def test_a_line_of_a_record_is_the_same_in_spark_and_in_plain_python(spark: SparkSession) -> None:
    bodies = ["\x00\x1f\x7f", 'a"b\\c\\u001f/d', "ä€😀\u2028", "\r\n\t\b\f", "\\\x1b"]
    properties = {"b": bodies[1], "a": ""}
    record = message(1, tags=bodies, properties=properties, body="".join(bodies), salt="5a" * 16)
    frame = spark.createDataFrame(
        [tuple(record.get(name) for name in SCHEMAS[RecordKind.MESSAGES].fieldNames())], SCHEMAS[RecordKind.MESSAGES]
    )
    [(_, _, _, root)] = merkle.day_roots(merkle.leaves_of(frame, RecordKind.MESSAGES))
    [row] = frame.collect()
    leaf = merkle.leaf_of(row.asDict(recursive=True))
    assert root == merkle.root_of(list(merkle.bucket_digests([leaf]).values()))


def of_customer(number: int, customer: str, *, end_state: str | None = "delivered") -> tuple[Record, list[Record]]:
    sent = message(number, "bills", properties={"customer": customer})
    return sent, [] if end_state is None else [end(sent, state=end_state)]


def test_a_certificate_of_one_customer_lists_each_message_with_its_deliveries(
    spark: SparkSession, new_bucket: Callable[[], Bucket]
) -> None:
    """Its own expired too early; what never ended is of another and none of its violations."""
    bucket, plot = new_bucket(), Plot(subscriptions=subscribed("bills", filter=APPLE))
    for number, (customer, state) in enumerate((("42", "delivered"), ("42", "expired"), ("7", None))):
        sent, ends = of_customer(number, customer, end_state=state)
        plot.messages.append(sent)
        plot.deliveries += ends
    archived(bucket, {"bills": plot})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arguments, "now_ms", lambda: arguments.moment("2026-11-23T12:30:00Z"))
        code = audit.main(["--archive", bucket.uri, "--date", DAY, "--property", "customer=42"])
    found = {key.rpartition("/")[2]: bucket.text(key) for key in bucket.keys("reports/audit/")}
    assert found.keys() == {"certificate.json", "index.html"}, "the tables of violations are of whole audits"
    assert certificates_of_one(FolderObjects(Path(bucket.uri))) == bucket.keys("reports/audit/"), "an erasure finds it"
    certificate = json.loads(found["certificate.json"])
    subject = certificate["subject"]
    assert (subject["counts"]["messages"], subject["counts"]["entries"], certificate["judged"]) == (2, 2, 2)
    listed = [(each["message_id"][-1:], *(of["state"] for of in each["deliveries"])) for each in subject["listed"]]
    assert [states for _, *states in listed] == [["delivered"], ["expired"]]
    assert {of["subscription"] for each in subject["listed"] for of in each["deliveries"]} == {"s0"}
    assert [each["message_id"] for each in certificate["listed"]] == [subject["listed"][1]["message_id"]]
    assert code == 1
    assert "customer=42" in found["index.html"]

"""The archive function: what it keeps of the streams' changes, and what becomes of it when Firehose refuses."""

import base64
import gzip
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, cast

import pytest
from botocore.exceptions import ConnectTimeoutError
from tagcast.archive.change_records import records_of
from tagcast.archive.events import EventPublisher
from tagcast.archive.record import Record, RecordKind, RowChange
from tagcast.archive.tail import TailWriter
from tagcast.model import (
    Draft,
    Endpoint,
    Entry,
    EntryState,
    LaneState,
    Message,
    Outcome,
    Protocol,
    SubscriptionSettings,
)
from tagcast.ports import Row
from tagcast.queues import Audience
from tagcast.registry import subscriptions
from tagcast.rows.due import UNTOLD
from tagcast.rows.lane import LANES, Lane
from tagcast.rows.message import MESSAGES, MessageRow, round_attributes
from tagcast.rows.message_transitions import ENDS, ROUNDS, End, Origin, RoundRow
from tagcast.rows.state_map import Round, StateMap
from tagcast.rows.subscription import SETTINGS as STORED_SETTINGS
from tagcast.subscription_settings import IN_ORDER
from tagcast_aws import wiring
from tagcast_aws.dispatch.firehose import ATTEMPTS_MAX, RECORD_BYTES_MAX, FirehoseArchive, pack_records
from tagcast_aws.store.stream import change_of

from functions.archive import app
from local.sources.event_pattern import matches
from tests.fakes.stream import FakeStream
from tests.fakes.world import FakeWorld
from tests.template import declared
from tests.unit.test_function_events import Story, event, in_lambda, story

__all__ = ["story"]
RESOURCES = declared()
STREAMS = {kind: f"tagcast-archive-{kind}" for kind in RecordKind}


@dataclass
class FakeFirehose:
    """Takes what it is given but *refusals*: for each call, the places it refuses, or None for an error."""

    refusals: list[Sequence[int] | None] = field(default_factory=list)
    taken: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    sizes: list[int] = field(default_factory=list)
    """How many records each call has."""
    bytes: int = 0

    def put_record_batch(self, **request: Any) -> dict[str, Any]:
        stream, records = request["DeliveryStreamName"], request["Records"]
        self.sizes.append(len(records))
        refused = self.refusals.pop(0) if self.refusals else ()
        if refused is None:
            raise ConnectTimeoutError(endpoint_url="https://firehose.test")
        for place, record in enumerate(records):
            if place not in refused:
                self.bytes += len(record["Data"])
                self.taken[stream] += map(json.loads, gzip.decompress(record["Data"]).decode()[:-1].split("\n"))
        answers = [
            {"ErrorCode": "ServiceUnavailableException"} if place in refused else {"RecordId": str(place)}
            for place in range(len(records))
        ]
        return {"FailedPutCount": len(refused), "RequestResponses": answers}

    def of(self, kind: RecordKind) -> list[Any]:
        return self.taken[STREAMS[kind]]


def archive_into(firehose: FakeFirehose, *bodies: str) -> FirehoseArchive:
    return FirehoseArchive(cast("Any", firehose), STREAMS, bodies, wiring.logger(), sleep=lambda seconds: None)


@dataclass
class Keeper:
    """Keeps changes, unless S3 is away."""

    away: bool = False
    kept: list[Any] = field(default_factory=list)

    def keep(self, change: Any) -> bool:
        if not self.away:
            self.kept.append(change)
        return not self.away


def archived(event: Any, archive: FirehoseArchive, keeper: Keeper | None = None, tail: Any = None) -> Any:
    """What the function answers, where nobody watches unless *tail* does."""
    fakes = FakeWorld()
    tail = tail or TailWriter(fakes.store, fakes.clock, fakes.world.dice, fakes.telemetry)
    events = EventPublisher(fakes.store, fakes.clock, lambda: fakes.world)
    return app.handle(event, archive, tail, events, cast("Any", keeper or Keeper()))


def told(stream: FakeStream) -> list[dict[str, Any]]:
    """What the archive keeps of all changes since the last time."""
    return [json.loads(record.line()) for record in stream.records()]


def test_a_message_its_delivery_and_a_failed_attempt_are_kept() -> None:
    firehose = FakeFirehose()

    answer = archived(event("archive_messages"), archive_into(firehose))

    assert answer == {"batchItemFailures": []}
    [message] = firehose.of(RecordKind.MESSAGES)
    assert (message["message_id"], message["tags"], message["matched"]) == ("07549747200000000002", ["apple"], [0, 1])
    assert [(entry["ordinal"], entry["state"], entry["attempts"]) for entry in firehose.of(RecordKind.DELIVERIES)] == [
        (0, "blocked", 1),
        (1, "delivered", 1),
        (0, "pending", 0),
    ]
    assert [lane["state"] for lane in firehose.of(RecordKind.LANES)] == ["lost_contact"]


def test_versions_of_topics_subscriptions_and_filters_are_kept() -> None:
    firehose = FakeFirehose()

    archived(event("archive_registry"), archive_into(firehose))

    parts = firehose.of(RecordKind.SUBSCRIPTIONS)
    assert [part["part"] for part in parts] == ["topic", "settings", "filter"]
    assert parts[2]["since"] == 1


def test_the_events_are_the_rows_as_they_are_written_and_pass_the_filters_of_the_template(story: Story) -> None:
    accepted, _, _, settled, removed = event("archive_messages")["Records"]
    assert accepted["dynamodb"]["NewImage"] == in_lambda(story.message_row)
    story.block()
    assert settled["dynamodb"]["NewImage"] == removed["dynamodb"]["OldImage"] == in_lambda(story.message_row)
    function = RESOURCES["ArchiveFunction"]["Properties"]
    for source, name in (("MessageRows", "archive_messages"), ("RegistryRows", "archive_registry")):
        filters = function["Events"][source]["Properties"]["FilterCriteria"]["Filters"]
        patterns = [json.loads(declared["Pattern"]) for declared in filters]
        for record in event(name)["Records"]:
            assert any(matches(pattern, record) for pattern in patterns)


def test_the_same_change_twice_is_the_same_record_byte_for_byte() -> None:
    for name in ("archive_messages", "archive_registry"):
        for record in event(name)["Records"]:
            first, again = (records_of(change_of(record), lambda topic: True) for _ in range(2))
            assert [each.line() for each in first] == [each.line() for each in again]


def test_bodies_are_kept_for_the_topics_that_ask_for_it_only() -> None:
    for patterns, kept in ((("samples",), "first"), (("sam*", "x"), "first"), (("fruit",), None), ((), None)):
        firehose = FakeFirehose()
        archived(event("archive_messages"), archive_into(firehose, *patterns))
        assert firehose.of(RecordKind.MESSAGES)[0].get("body") == kept


def test_a_change_that_can_neither_be_read_nor_kept_is_reported_so_that_it_is_not_dropped() -> None:
    batch = event("archive_messages")
    del batch["Records"][2]["dynamodb"]["NewImage"]["expires_at"]

    answer = archived(batch, archive_into(FakeFirehose()), Keeper(away=True))

    assert answer == {"batchItemFailures": [{"itemIdentifier": batch["Records"][2]["dynamodb"]["SequenceNumber"]}]}


@pytest.mark.parametrize("name", ["deflated", "packs"])
def test_a_change_whose_content_does_not_inflate_is_kept_and_stops_nothing(name: str) -> None:
    batch, keeper, firehose = event("archive_messages"), Keeper(), FakeFirehose()
    place, image = next(
        (place, each["dynamodb"]["NewImage"])
        for place, each in enumerate(batch["Records"])
        if "accepted_at" in each["dynamodb"].get("NewImage", {})
    )
    image[name] = {"B": base64.b64encode(b"of a later release").decode()}

    answer = archived(batch, archive_into(firehose), keeper)

    assert answer == {"batchItemFailures": []}
    assert keeper.kept == [batch["Records"][place]]


def test_of_what_was_lost_and_what_could_not_be_read_the_first_is_reported() -> None:
    batch = event("archive_messages")
    del batch["Records"][2]["dynamodb"]["NewImage"]["expires_at"]
    errors: list[Sequence[int] | None] = [None for _ in range(2 * ATTEMPTS_MAX)]
    firehose = FakeFirehose(refusals=errors)

    answer = archived(batch, archive_into(firehose), Keeper(away=True))

    assert answer == {"batchItemFailures": [{"itemIdentifier": batch["Records"][0]["dynamodb"]["SequenceNumber"]}]}


def test_watchers_are_told_of_what_was_archived_and_of_nothing_that_comes_again() -> None:
    class Listener:
        def write(self, records: Sequence[Record]) -> None:
            heard.extend(record.kind for record in records)

    batch = event("archive_messages")
    heard: list[RecordKind] = []
    lost: list[Sequence[int] | None] = [(), *[None] * ATTEMPTS_MAX]

    archived(batch, archive_into(FakeFirehose(lost)), tail=Listener())
    assert heard == [RecordKind.MESSAGES]

    archived(batch, archive_into(FakeFirehose()), tail=Listener())
    assert len(heard) == 1 + 1 + 3 + 1


def test_of_parcels_in_one_request_those_that_were_refused_are_sent_again() -> None:
    lines = [(place, RecordKind.MESSAGES, json.dumps(str(place).ljust(4_094))) for place in range(1_000)]
    firehose = FakeFirehose(refusals=[(1, 3)])

    assert archive_into(firehose).put(lines) is None
    assert sorted(map(int, firehose.of(RecordKind.MESSAGES))) == list(range(1_000))
    assert firehose.sizes == [4, 2, 1]


def test_nothing_is_put_twice_for_one_line_that_was_lost() -> None:
    """The stream repeats the batch from the lost place on: what was taken behind it is left out then."""
    lines = [
        (place, kind, f'"{kind} {place}"') for place in range(4) for kind in (RecordKind.LANES, RecordKind.MESSAGES)
    ]
    firehose = FakeFirehose(refusals=[(), *[(0,)] * ATTEMPTS_MAX])
    archive = archive_into(firehose)

    lost = archive.put(lines)
    assert lost == 0
    assert archive.put([each for each in lines if each[0] >= lost]) is None

    for kind in (RecordKind.LANES, RecordKind.MESSAGES):
        assert firehose.of(kind) == [f"{kind} {place}" for place in range(4)]


def test_what_was_taken_is_remembered_in_few_bytes_whatever_a_line_holds() -> None:
    lines = [(place, RecordKind.MESSAGES, f'"{place} \u2028 \x85 {"x" * 400_000}"') for place in range(4)]
    archive = archive_into(FakeFirehose(refusals=[(0,), *[(0,)] * ATTEMPTS_MAX]))

    assert archive.put(lines) == 0
    assert sum(map(len, archive.ahead)) <= 16 * len(lines)
    assert archive.put(lines) is None


def test_what_stands_behind_a_lost_line_is_left_for_the_repetition() -> None:
    far = [(place, RecordKind.MESSAGES, json.dumps(str(place).ljust(4_094))) for place in range(2_000)]
    firehose = FakeFirehose(refusals=[(0, 1, 2, 3)] * ATTEMPTS_MAX)

    assert archive_into(firehose).put(far) == 0
    assert firehose.sizes == [4] * ATTEMPTS_MAX


def test_records_of_a_hundred_deliveries_are_put_in_an_eighth_of_their_bytes(fake: FakeWorld) -> None:
    for number in range(100):
        fake.subscribe(f"s{number}")
    fake.publish("1")
    stream = FakeStream(fake)
    fake.deliver()
    lines = [(0, RecordKind.DELIVERIES, json.dumps(record)) for record in told(stream)]
    firehose = FakeFirehose()

    archive_into(firehose).put(lines)

    assert len(lines) == 100
    assert firehose.bytes * 8 <= sum(len(line) for _, _, line in lines)


def test_lines_travel_together_within_the_limits_of_firehose() -> None:
    line = "x" * 4096
    parcels = pack_records((place, RecordKind.MESSAGES, line) for place in range(1000))[RecordKind.MESSAGES]

    assert sum(len(parcel.places) for parcel in parcels) == 1000
    assert all(len(parcel.content) <= RECORD_BYTES_MAX for parcel in parcels)
    assert len(parcels) == 5


def test_no_secret_of_a_subscription_is_archived(fake: FakeWorld) -> None:
    stream = FakeStream(fake)
    endpoint = Endpoint(Protocol.HTTPS, "https://user:word@hooks.test/services/T0/B1/key?token=abc")
    fake.subscribe("a", endpoint=endpoint, secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    kept = json.dumps(told(stream))

    assert '"endpoint": "https://hooks.test"' in kept
    for secret in ("word", "whsec", "MfKQ9r8", "token", "services"):
        assert secret not in kept


@pytest.mark.parametrize("max_retries", [0, 1, 3])
def test_what_a_receiver_said_is_never_archived(fake: FakeWorld, max_retries: int) -> None:
    answer = Outcome(False, "http 500", status=500, answer=b"not yours")
    fake.subscribe("A", max_retries=max_retries, answers=answer)
    stream, kept = FakeStream(fake), ""
    for happen in (partial(fake.publish, "1"), fake.deliver, partial(fake.run_for, 20), partial(fake.run_for, 600)):
        happen()
        kept += json.dumps(told(stream))

    assert any(UNTOLD & row.keys() for row in fake.store.rows.values())
    assert "http 500" in kept
    assert "not yours" not in kept
    assert "histor" not in kept


def test_a_secret_has_in_its_row_the_name_by_which_the_archive_leaves_it_out() -> None:
    hidden = {each.name for each in fields(SubscriptionSettings) if not each.repr}
    told = set(STORED_SETTINGS.attributes(SubscriptionSettings(Endpoint(Protocol.SQS, "q"), None, IN_ORDER)))

    assert hidden & told == {"secret"}
    assert hidden - told == {"client_key", "formers", "headers"}, "they are nowhere but where they are sealed"


def test_a_subscription_that_is_removed_is_told_with_its_last_version(story: Story) -> None:
    stream = FakeStream(story.fake)
    subscriptions.delete_subscription(story.fake.world, "samples", "billing")

    removed = [record for record in told(stream) if record.get("part") == "removed"]

    assert [(record["subscription"], record["version"]) for record in removed] == [("billing", 2)]


@pytest.mark.parametrize("kind", RecordKind)
def test_every_kind_has_a_delivery_stream_with_gzip_and_prefixes_by_day_and_hour(kind: RecordKind) -> None:
    name = {"Fn::Sub": f"${{AWS::StackName}}-archive-{kind}"}
    [stream] = [
        each["Properties"]
        for each in RESOURCES.values()
        if each["Type"] == "AWS::KinesisFirehose::DeliveryStream" and each["Properties"]["DeliveryStreamName"] == name
    ]
    destination = stream["ExtendedS3DestinationConfiguration"]
    # The function deflates: members of gzip files one behind the other are a gzip file.
    assert (destination["CompressionFormat"], destination["FileExtension"]) == ("UNCOMPRESSED", ".gz")
    assert destination["Prefix"] == f"raw/{kind}/dt=!{{timestamp:yyyy-MM-dd}}/hour=!{{timestamp:HH}}/"


def test_a_version_of_a_row_that_nobody_changed_is_not_told() -> None:
    row = {"pk": "IDEM#t#k", "sk": "IDEM"}
    assert records_of(RowChange(None, row, 1), bool) == ()
    assert replace(RowChange(row, None, 1), removed_by_ttl=True).remover == "ttl"


def lane_change(before: Lane | None, after: Lane | None) -> list[Any]:
    def row(lane: Lane | None) -> Row | None:
        return None if lane is None else {"pk": lane.key.pk, "sk": lane.key.sk, **LANES.row_of(lane)}

    return list(records_of(RowChange(row(before), row(after), 5_000), lambda topic: False))


def test_a_lane_is_told_whenever_its_state_or_its_generation_changes_and_never_for_a_claim() -> None:
    lane = Lane("t", "07457000000000000001.2", LaneState.BLOCKED, "g1", 1, 0, 1_000, 1_000)

    [began] = lane_change(None, lane)
    [restarted] = lane_change(lane, replace(lane, generation="g2"))
    [lost] = lane_change(lane, replace(lane, state=LaneState.LOST_CONTACT))
    [drained] = lane_change(lane, None)

    told = ("state", "previous_state", "generation", "previous_generation", "next_attempt_at", "changed_at")
    assert [tuple(record.fields[name] for name in told) for record in (began, restarted, lost, drained)] == [
        ("blocked", "active", "g1", None, 1_000, 5_000),
        ("blocked", "blocked", "g2", "g1", 1_000, 5_000),
        ("lost_contact", "blocked", "g1", "g1", 1_000, 5_000),
        ("active", "blocked", "g1", "g1", None, 5_000),
    ]
    assert lane_change(lane, replace(lane, claim=1, next_attempt_at=2_000, appended=2)) == []
    assert lane_change(replace(lane, state=LaneState.REMOVED), None) == []


def test_an_end_that_replaces_another_end_has_a_record_of_its_own() -> None:
    """Otherwise compaction takes both for one record, and the audit sees one end."""
    message = Message("t", str(1_000 << 22), Draft(b"x"), 1_000, 70_000)
    owed = MessageRow(message, StateMap.of([3]), 7)
    ends = Entry(EntryState.DELIVERED, 1, 2_000), Entry(EntryState.EXPIRED)
    rounds = [Round.of(1_500, {3: each}) for each in ends]
    key = {"pk": "MSG#t#m", "sk": "MSG"}
    narrow: Row = {**key, **MESSAGES.row_of(owed)}
    rows: list[list[Row]] = [
        [{**key, "sk": "END#3", **ENDS.row_of(End(Origin.of(owed), 3, each))} for each in ends],
        [{**narrow, **round_attributes(each, 1_000, "")} for each in rounds],
        [
            {
                **key,
                "sk": "ROUND#0#everybody",
                **ROUNDS.row_of(RoundRow(Origin.of(owed), 0, Audience.EVERYBODY, each, 0)),
            }
            for each in rounds
        ],
    ]
    for (first, second), before in zip(rows, (None, narrow, None), strict=True):
        told = [*records_of(RowChange(before, first, 5_000), bool), *records_of(RowChange(first, second, 6_000), bool)]
        assert [each.fields["state"] for each in told] == ["delivered", "expired"]
        assert len({each.fields["record_id"] for each in told}) == 2


@pytest.mark.parametrize(("by_ttl", "remover"), [(True, "ttl"), (False, "deletion")])
def test_an_owed_entry_whose_row_went_is_told_with_whoever_removed_it(by_ttl: bool, remover: str) -> None:
    pending = MessageRow(Message("t", str(1_000 << 22), Draft(b"x"), 1_000, 70_000), StateMap.of([3]), 7)
    row: Row = {"pk": "MSG#t#m", "sk": "MSG", **MESSAGES.row_of(pending)}

    [record] = records_of(RowChange(row, None, 5_000, removed_by_ttl=by_ttl), lambda topic: False)

    fields = {name: record.fields[name] for name in ("ordinal", "state", "attempts", "changed_at", "removed_by")}
    assert fields == {"ordinal": 3, "state": "pending", "attempts": 0, "changed_at": 5_000, "removed_by": remover}

"""The events in `events/` for functions that no HTTP request reaches: each served by its function in one story.

The story is the history of which the files are the events: `warehouse` fails, `billing` does not, and two messages
are published to the topic `samples`, a name that no other event uses. Clock and dice of the world in memory are
always the same, and so are the ids.
"""

import asyncio
import base64
import hashlib
import json
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tagcast.delivery.lease import Task
from tagcast.model import EntryState, Strategy
from tagcast.operating import messages
from tagcast.ports import QueueEntry, Row, Table, World
from tagcast.queues import entry_text
from tagcast.rows.keys import message_key
from tagcast.rows.lane import LANES, Lane
from tagcast.rows.listed import UNSENT
from tagcast_aws import wiring
from tagcast_aws.store.attributes import to_attribute

from functions.fan_out import app as fan_out
from functions.relay import app as relay
from functions.retry import app as retry
from functions.sweep import app as sweep
from local.sources.event_pattern import matches
from tests.fakes.world import FAIL, FakeWorld
from tests.template import declared

ROOT = Path(__file__).parents[2]
TOPIC = "samples"


def event(name: str) -> Any:
    return json.loads((ROOT / "events" / f"{name}.json").read_text())


def in_lambda(row: Row) -> dict[str, Any]:
    """A row as the stream gives it to Lambda: typed JSON with bytes in base64."""
    typed = {name: to_attribute(value) for name, value in row.items()}
    return {
        name: {"B": base64.b64encode(attribute["B"]).decode()} if "B" in attribute else attribute
        for name, attribute in typed.items()
    }


@dataclass
class Story:
    """The world after two messages were queued, before their first round."""

    fake: FakeWorld
    message_ids: Sequence[str]
    queued: Sequence[QueueEntry]

    @property
    def queued_first(self) -> Sequence[QueueEntry]:
        """What was queued of the first message, for those that keep an order and for the others."""
        return [entry for entry in self.queued if entry.message_id == self.message_ids[0]]

    @property
    def message_row(self) -> Row:
        row = self.fake.store.get(message_key(TOPIC, self.message_ids[0]))
        assert row is not None
        return row

    def block(self) -> None:
        """Let the first round happen: it blocks the lane of `warehouse`."""
        self.fake.deliver()

    def lane(self) -> Lane:
        [row] = self.fake.store.query(Table.MESSAGES, f"LANES#{TOPIC}")
        return LANES.value_of(row)

    def state(self, name: str, message: int = 0) -> EntryState:
        view = messages.message_view(self.fake.world, TOPIC, self.message_ids[message])
        return view.subscribers[name].state


@pytest.fixture
def story() -> Story:
    fake = FakeWorld()
    fake.topic(TOPIC)
    fake.subscribe("warehouse", topic=TOPIC, strategy=Strategy.EXPONENTIAL_DECAY_RETRY, answers=FAIL)
    fake.subscribe("billing", topic=TOPIC)
    message_ids = [fake.publish(body, topic=TOPIC, tags=("apple",))[0] for body in ("first", "second")]
    return Story(fake, message_ids, tuple(fake.queue.entries))


def as_written(lane: Lane) -> Row:
    return {"pk": lane.key.pk, "sk": lane.key.sk, **LANES.row_of(lane)}


def test_the_queue_records_name_what_was_queued_under_its_group(story: Story) -> None:
    records = event("fan_out_batch")["Records"]

    assert [record["body"] for record in records] == [entry_text(entry) for entry in story.queued]
    assert [record["attributes"]["MessageGroupId"] for record in records] == [entry.group for entry in story.queued]
    for record in records:
        assert record["md5OfBody"] == hashlib.md5(record["body"].encode()).hexdigest()


def test_fan_out_serves_its_batch(story: Story) -> None:
    answer = asyncio.run(fan_out.handle(event("fan_out_batch"), story.fake.world))

    assert answer == {"batchItemFailures": []}
    assert story.fake.pusher.received["billing"] == ["first", "second"]
    assert story.state("billing") is EntryState.DELIVERED
    assert story.state("warehouse", 1).is_terminal is False
    assert len(story.fake.workflow.tasks) == 1


def test_fan_out_reports_the_records_of_a_topic_that_could_not_be_completed(story: Story) -> None:
    batch = event("fan_out_batch")

    def refuse(push: object) -> None:
        raise OSError("the table cannot be reached")

    story.fake.pusher.before_push = refuse
    answer = asyncio.run(fan_out.handle(batch, story.fake.world))

    failed = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
    assert failed == {record["messageId"] for record in batch["Records"]}


def test_the_retry_task_is_the_input_of_the_execution_that_fan_out_started(story: Story) -> None:
    story.block()

    assert [Task(**event("retry_task"))] == story.fake.workflow.tasks


def test_retry_answers_with_the_instant_of_the_next_attempt_until_the_lane_is_done(story: Story) -> None:
    story.block()
    for _ in range(3):
        answer = asyncio.run(retry.handle(event("retry_task"), story.fake.world, 60.0))
        assert answer["status"] == "wait"
        assert answer["wait_until"].endswith("Z")
        story.fake.clock.instant = story.lane().next_attempt_at or 0
        assert answer["rounds"] == 1

    story.fake.pusher.behaviours.clear()
    answer = asyncio.run(retry.handle(event("retry_task"), story.fake.world, 60.0))

    assert answer == {**event("retry_task"), "status": "end"}
    assert story.state("warehouse", 1) is EntryState.DELIVERED


def test_the_stream_records_are_the_rows_as_they_are_written(story: Story) -> None:
    message, lane, claim = event("relay_batch")["Records"]
    assert message["dynamodb"]["NewImage"] == in_lambda(story.message_row)
    story.block()

    assert lane["dynamodb"]["NewImage"] == in_lambda(as_written(story.lane()))
    assert claim["dynamodb"]["OldImage"] == in_lambda(as_written(story.lane()))
    assert claim["dynamodb"]["NewImage"] == in_lambda(as_written(replace(story.lane(), claim=story.lane().claim + 1)))


def test_the_stream_records_pass_the_filters_of_the_template() -> None:
    function = declared()["RelayFunction"]["Properties"]
    filters = function["Events"]["MessageRows"]["Properties"]["FilterCriteria"]["Filters"]
    patterns = [json.loads(declared["Pattern"]) for declared in filters]

    for record in event("relay_batch")["Records"]:
        assert any(matches(pattern, record) for pattern in patterns)


def test_relay_repeats_the_send_and_the_start_and_nothing_for_a_claim(story: Story) -> None:
    story.fake.queue.entries.clear()

    relay.handle(event("relay_batch"), story.fake.world)

    assert story.fake.queue.entries == story.queued_first
    assert story.fake.workflow.tasks == [Task(**event("retry_task"))]


def test_relay_lists_what_could_not_be_sent_and_leaves_to_the_sweep_what_could_not_be_started(story: Story) -> None:
    story.fake.queue.broken = story.fake.workflow.broken = True

    relay.handle(event("relay_batch"), story.fake.world)

    listed = [UNSENT.value_of(row) for key, row in story.fake.store.rows.items() if key.pk.startswith("UNSENT#")]
    assert listed == story.queued_first
    assert story.fake.telemetry.counts["QueueSendsLeftToSweep"] == len(listed)


def test_relay_serves_every_record_of_a_batch(story: Story) -> None:
    story.fake.queue.entries.clear()
    message, *_ = event("relay_batch")["Records"]
    elsewhere = {**message, "eventName": "MODIFY"}

    relay.handle({"Records": [*[elsewhere] * 99, message]}, story.fake.world)

    assert story.fake.queue.entries == story.queued_first


@pytest.fixture
def deployed(story: Story, monkeypatch: pytest.MonkeyPatch) -> Story:
    """The story, whose world is that of the deployed functions."""

    def run(world: World, work: Coroutine[Any, Any, Any]) -> Any:
        assert world is story.fake.world
        return asyncio.run(work)

    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "tagcast")
    monkeypatch.setattr(wiring, "process", lambda: story.fake)
    monkeypatch.setattr(wiring, "run", run)
    return story


@pytest.mark.parametrize(("left_ms", "budget_s"), [(900_000, 855.0), (120_000, 75.0), (46_000, 1.0), (3_000, 1.0)])
def test_retry_keeps_time_for_an_attempt_and_its_writes_at_the_end_of_an_invocation(
    left_ms: int, budget_s: float
) -> None:
    assert retry.budget_s_of(left_ms) == budget_s


def test_the_entry_point_of_retry_answers_within_what_its_invocation_has_left(deployed: Story) -> None:
    deployed.block()
    context = SimpleNamespace(function_name="retry", get_remaining_time_in_millis=lambda: 120_000)

    answer = retry.lambda_handler(event("retry_task"), context)

    assert (answer["status"], answer["rounds"]) == ("wait", 1)


@pytest.mark.usefixtures("deployed")
def test_the_entry_point_of_fan_out_lets_the_deployed_world_run_what_it_handles() -> None:
    context = SimpleNamespace(function_name="fan_out", get_remaining_time_in_millis=lambda: 60_000)

    assert fan_out.lambda_handler(event("fan_out_batch"), context) == {"batchItemFailures": []}


def test_sweep_restarts_an_overdue_lane_and_says_how_late_it_was(story: Story) -> None:
    story.block()
    story.fake.workflow.tasks.clear()
    story.fake.clock.sleep(61)

    assert asyncio.run(sweep.handle(story.fake.world, 60.0)) == {
        "restarted": 1,
        "expired": 0,
        "sent": 0,
        "removed": 0,
        "oldest_overdue_seconds": 60.0,
        "oldest_blocked_head_seconds": 61.0,
        "expiring_within_hour": 0,
    }
    assert story.fake.workflow.tasks == [Task(TOPIC, story.lane().subscription_id, story.lane().generation)]


def test_sweep_is_called_by_a_schedule_and_reads_nothing_from_it() -> None:
    schedule: Mapping[str, Any] = event("sweep")

    assert (schedule["detail-type"], schedule["detail"]) == ("Scheduled Event", {})

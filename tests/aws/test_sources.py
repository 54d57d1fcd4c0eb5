"""Event source mappings and the workflow: batches, answers in part, halves, attempts, ages, names."""

from __future__ import annotations

import json
from itertools import chain
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.aws import limits
from tests.aws.stage import Stage
from tests.aws.timeline import EPOCH


def names_in(event: Any) -> list[str]:
    return [record["dynamodb"]["Keys"]["pk"]["S"] for record in event["Records"]]


def bodies_in(event: Any) -> list[str]:
    return [json.loads(record["body"])["message_id"] for record in event["Records"]]


def test_only_what_a_filter_lets_through_comes_to_the_relay_in_order() -> None:
    stage = Stage("RelayFunction", lambda stage, event: stage.tell(names_in(event)))
    stage.put("MSG#1", "IDEM#1", "LANES#1", "RETAINED#1", "MSG#2")

    assert list(chain.from_iterable(stage.play(10_000))) == ["MSG#1", "LANES#1", "MSG#2"]


def test_an_answer_in_part_repeats_from_the_first_record_that_it_names() -> None:
    def handler(stage: Stage, event: Any) -> Any:
        stage.tell(names_in(event))
        if len(stage.told) > 1:
            return {"batchItemFailures": []}
        numbers = [record["dynamodb"]["SequenceNumber"] for record in event["Records"]]
        return {"batchItemFailures": [{"itemIdentifier": numbers[2]}, {"itemIdentifier": numbers[1]}]}

    stage = Stage("RelayFunction", handler)
    stage.put("MSG#1", "MSG#2", "MSG#3")

    assert stage.play(20_000) == [["MSG#1", "MSG#2", "MSG#3"], ["MSG#2", "MSG#3"]]


def test_an_error_halves_the_batch_and_a_poisoned_record_goes_to_the_failures_alone() -> None:
    def handler(stage: Stage, event: Any) -> Any:
        if "MSG#3" in names_in(event):
            raise ValueError("poison")
        stage.tell(names_in(event))
        return {"batchItemFailures": []}

    stage = Stage("RelayFunction", handler)
    stage.put("MSG#1", "MSG#2", "MSG#3", "MSG#4")
    served = list(chain.from_iterable(stage.play(7_200_000)))
    notes = [json.loads(message.body) for message in stage.deployment.queues["RelayFailures"].messages()]

    assert served == ["MSG#1", "MSG#2", "MSG#4"]
    assert [(note["requestContext"]["condition"], note["DDBStreamBatchInfo"]["batchSize"]) for note in notes] == [
        ("RecordAgeExceeded", 1)
    ]


def test_records_that_wait_too_long_for_concurrency_are_given_up_too() -> None:
    stage = Stage("RelayFunction", lambda stage, event: stage.tell(names_in(event)))
    stage.deployment.functions.weather.throttles = lambda function: stage.timeline.now < EPOCH + 5_400_000  # type: ignore[method-assign]
    stage.put("MSG#1")
    stage.play(4_000_000)
    stage.put("MSG#2")

    assert stage.play(7_200_000) == [["MSG#2"]]
    [note] = [json.loads(message.body) for message in stage.deployment.queues["RelayFailures"].messages()]
    assert note["requestContext"]["condition"] == "RecordAgeExceeded"


def test_a_group_of_the_queue_is_served_by_one_batch_at_a_time() -> None:
    def handler(stage: Stage, event: Any) -> Any:
        stage.tell(("begins", bodies_in(event)))
        stage.timeline.spend(1_000)
        stage.tell(("ends", bodies_in(event)))
        return {"batchItemFailures": []}

    stage = Stage("FanOutFunction", handler)
    stage.send("a", *(f"a{number}" for number in range(25)))
    told = stage.play(60_000)

    assert [word for word, _ in told] == ["begins", "ends"] * (len(told) // 2)
    assert [body for word, bodies in told if word == "ends" for body in bodies] == [f"a{n}" for n in range(25)]
    assert max(len(bodies) for _, bodies in told) <= 10


@pytest.mark.parametrize("most", [2, 3])
def test_a_queue_is_served_by_at_most_as_many_batches_at_once_as_its_maximum_concurrency(most: int) -> None:
    without, bounded = batches_at_once("0"), batches_at_once(str(most))

    assert without >= limits.QUEUE_POLLERS
    assert bounded == most


def batches_at_once(concurrency: str) -> int:
    """Serve thirty groups with this FanOutConcurrency; return how many batches were in work at once, at most."""
    working: set[str] = set()

    def handler(stage: Stage, event: Any) -> Any:
        first = bodies_in(event)[0]
        working.add(first)
        stage.tell(len(working))
        stage.timeline.spend(1_000)
        working.remove(first)
        return {"batchItemFailures": []}

    stage = Stage("FanOutFunction", handler, ("FanOutConcurrency", concurrency))
    for group in range(30):
        stage.send(f"group-{group}", *(f"{group}-{number}" for number in range(10)))
    found = stage.play(600_000)
    assert not list(stage.deployment.queues["DeliveryQueue"].messages())
    return int(max(found))


def test_messages_that_failed_come_again_after_their_visibility_and_hold_back_their_group_only() -> None:
    def handler(stage: Stage, event: Any) -> Any:
        stage.tell(bodies_in(event))
        failed = [record for record in event["Records"] if json.loads(record["body"])["message_id"] == "a1"]
        first = len([1 for _, bodies in stage.told if "a1" in bodies]) == 1
        return {"batchItemFailures": [{"itemIdentifier": each["messageId"]} for each in failed] if first else []}

    stage = Stage("FanOutFunction", handler)
    stage.send("a", "a1")
    stage.play(2_000)
    stage.send("a", "a2")
    stage.send("b", "b1")
    stage.play(1_000_000)

    order = [body for _, bodies in stage.told for body in bodies]
    assert order.index("b1") < order.index("a2")
    assert order.count("a1") == 2
    assert order.index("a2") > order.index("a1") + 1
    again = [at for at, bodies in stage.told if "a1" in bodies][1]
    assert 360_000 <= again < 370_000


def test_an_execution_waits_as_its_task_says_and_ends() -> None:
    answers = [{"status": "wait", "wait_until": "2027-01-15T08:01:00.000Z"}, {"status": "end"}]

    def handler(stage: Stage, event: Any) -> Any:
        stage.tell(event["n"])
        return {**event, **answers.pop(0)}

    stage = Stage("RetryFunction", handler)
    stage.states.start_execution(stateMachineArn=stage.deployment.machine.arn, name="one", input='{"n": 7}')
    stage.play(120_000)

    assert [what for _, what in stage.told] == [7, 7]
    assert 60_000 < stage.told[1][0] < 61_500
    assert stage.deployment.machine.executions["one"].status == "SUCCEEDED"


def test_a_task_that_finds_no_capacity_is_tried_again_within_seconds_by_the_workflow_itself() -> None:
    def handler(stage: Stage, event: Any) -> Any:
        stage.tell(sorted(event))
        return {"status": "end"}

    stage, refusals = Stage("RetryFunction", handler), [True, True]
    stage.deployment.functions.weather.throttles = lambda function: bool(refusals) and refusals.pop()  # type: ignore[method-assign]
    stage.states.start_execution(stateMachineArn=stage.deployment.machine.arn, name="one", input='{"n": 7}')
    stage.play(120_000)

    [(asked_ms, members)] = stage.told
    assert asked_ms < 2_000 + 4_000 + 1_500
    assert members == ["n"], "no fault is told"
    assert stage.deployment.machine.executions["one"].status == "SUCCEEDED"


def test_the_name_of_an_execution_is_good_for_one_input_in_ninety_days() -> None:
    def handler(stage: Stage, event: Any) -> Any:
        stage.tell(event["n"])
        return {"status": "end"}

    stage = Stage("RetryFunction", handler)
    arn = stage.deployment.machine.arn
    first = stage.states.start_execution(stateMachineArn=arn, name="one", input='{"n": 7}')
    again = stage.states.start_execution(stateMachineArn=arn, name="one", input='{"n": 7}')
    stage.play(10_000)

    assert first["executionArn"] == again["executionArn"]
    assert [what for _, what in stage.told] == [7]
    with pytest.raises(ClientError, match="ExecutionAlreadyExists"):
        stage.states.start_execution(stateMachineArn=arn, name="one", input='{"n": 7}')


def test_sweeps_that_were_refused_or_failed_do_not_pile_up() -> None:
    minute, hour = 60_000, 3_600_000

    def handler(stage: Stage, event: Any) -> None:
        stage.tell("sweep")
        if stage.timeline.now < EPOCH + 2 * hour:
            raise ValueError("a fault of the table")

    stage = Stage("SweepFunction", handler)
    stage.deployment.functions.weather.throttles = lambda function: stage.timeline.now < EPOCH + hour  # type: ignore[method-assign]
    assert len(stage.play(hour)) == 0
    assert len(stage.play(hour + 5 * minute)) <= 2
    failed = len(stage.told)
    assert len(stage.play(2 * hour)) - failed == 11

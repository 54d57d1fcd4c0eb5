"""On the running stack every caller has its own role's permissions; what it may not do is refused as on AWS."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.killing import call
from tests.permissions.report import declared_roles, missing, removals, tell
from tests.permissions.uses import USES, recorded
from tests.running_stack import RunningStack, wait_until

pytestmark = pytest.mark.e2e


def test_a_queue_named_by_its_arn_gets_what_it_is_owed(stack: RunningStack) -> None:
    sqs = stack.owner("sqs")
    url = sqs.create_queue(QueueName="by-arn")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    call("PUT", f"{stack.url}/topics/queued", {})
    endpoint = {"endpoint": {"protocol": "sqs", "arn": arn}}
    call("PUT", f"{stack.url}/topics/queued/subscriptions/queue", endpoint)

    sent = call("POST", f"{stack.url}/topics/queued/messages", {"body": "x"})["message_id"]

    received: list[dict[str, Any]] = []

    def arrived() -> bool:
        received.extend(sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1).get("Messages", []))
        return bool(received)

    assert wait_until(arrived)
    assert json.loads(received[0]["Body"])["message_id"] == sent


@pytest.mark.timeout(300)
def test_no_permission_is_missing_and_none_is_superfluous(tmp_path: Path) -> None:
    chapters, _ = tell(tmp_path, USES)
    assert [name for name, ended_well in chapters.items() if not ended_well] == []

    uses = recorded(USES)

    assert missing(uses) == []
    assert [each for each in removals(declared_roles(), uses) if each.survives] == []


def test_the_relay_may_do_what_its_repairs_ask_of_it(stack: RunningStack) -> None:
    call("PUT", f"{stack.url}/topics/unsent", {})
    call("PUT", f"{stack.url}/topics/unsent/subscriptions/late", {
        "endpoint": {"protocol": "http", "url": "http://127.0.0.1:9/"}, "retry": {"strategy": "BACKOFF_RETRY"},
    })  # fmt: skip
    call("POST", f"{stack.url}/topics/unsent/messages", {"body": "x"})

    def relayed() -> bool:
        return any((use.role, use.action) == ("RelayFunctionRole", "sqs:SendMessage") for use in recorded(USES))

    assert wait_until(relayed)
    assert stack.denied() == []

"""A batch that the archive's source gave up, on a running stack: its object is named, archived when asked, and gone."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.running_stack import ROOT, RunningStack, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(200)]
TOPIC = "kept-changes"


def given_up() -> bytes:
    """What Lambda writes of a batch: here of the example event, about a topic of this test's own."""
    event = (ROOT / "events" / "archive_messages.json").read_text().replace("samples", TOPIC)
    return json.dumps({"version": "1.0", "payload": event}).encode()


def invoke(stack: RunningStack) -> Any:
    payload = (ROOT / "events" / "archive_kept.json").read_bytes()
    return json.load(stack.owner("lambda").invoke(FunctionName="tagcast-archive", Payload=payload)["Payload"])


def test_a_kept_batch_is_archived_when_somebody_asks(stack: RunningStack) -> None:
    s3, outputs = stack.owner("s3"), stack.where["outputs"]
    [bucket] = [each["Name"] for each in s3.list_buckets()["Buckets"] if "keptchanges" in each["Name"].lower()]
    key = str(Path("aws/lambda/source/shard/1"))
    s3.put_object(Bucket=bucket, Key=key, Body=given_up())
    asked = {"QueueUrl": outputs["ArchiveFailuresUrl"], "AttributeNames": ["ApproximateNumberOfMessages"]}
    sqs = stack.owner("sqs")
    assert wait_until(lambda: sqs.get_queue_attributes(**asked)["Attributes"]["ApproximateNumberOfMessages"] == "1"), (
        "the alarm looks at this"
    )

    assert invoke(stack) == {"archived": 5, "left": 0}

    assert wait_until(lambda: len(stack.archived("messages", TOPIC)) == 1)
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    assert invoke(stack) == {"archived": 0, "left": 0}

"""Whatever is listed is listed to its end: AWS answers in pages here, however little there is.

Where the code lists something of AWS is found by the words that it needs for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from tagcast.model import LaneState
from tagcast.ports import GroupQueue
from tagcast.rows.lane import LANES, Lane
from tagcast_aws import wiring
from tagcast_aws.dispatch.group_queues import SqsGroupQueues
from tagcast_aws.store.attributes import to_attribute
from tagcast_cli.doctor import Deployment, check_alarms
from tagcast_cli.job_run import Archive, Days, audit_arguments

from glue_jobs.io.objects import BucketObjects
from local.sources.sources import _lanes

ROOT = Path(__file__).parents[2]
LISTING = {
    "glue_jobs/io/objects.py",
    "layers/tag_matching/python/tagcast_aws/dispatch/group_queues.py",
    # tests/integration/test_dynamodb_requests.py has partitions of three pages.
    "layers/tag_matching/python/tagcast_aws/store/dynamodb.py",
    # tests/integration/test_message_archive.py has three pages of files.
    "layers/tag_matching/python/tagcast_aws/store/archives.py",
    "clients/cli/tagcast_cli/doctor.py",
    "clients/cli/tagcast_cli/job_run.py",
    # tests/unit/cli/test_smoke_aws.py has five objects on three pages.
    "clients/cli/tagcast_cli/smoke_aws.py",
    "local/sources/sources.py",
    # tests/unit/console/test_archive_jobs.py has a page for each object.
    "local/console/archive_jobs.py",
    # tests/unit/console/test_charts.py has what is looked for on a second page.
    "local/console/samples.py",
}
KEYS = [{"pk": {"S": "p"}, "sk": {"S": sk}} for sk in "abcde"]


def client(service: Any) -> Any:
    return boto3.client(service, region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="s")


def pages() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield what is asked besides for each of three pages, and the page; the second shows nothing of what it read."""
    ends = [KEYS[1], {"pk": {"S": "p"}, "sk": {"S": "bb"}}]
    yield {}, {"Items": KEYS[:2], "LastEvaluatedKey": ends[0]}
    yield {"ExclusiveStartKey": ends[0]}, {"Items": [], "LastEvaluatedKey": ends[1]}
    yield {"ExclusiveStartKey": ends[1]}, {"Items": KEYS[2:]}


def names(rows: Any) -> list[str]:
    return [row["sk"]["S"] if isinstance(row["sk"], dict) else row["sk"] for row in rows]


def test_every_queue_of_more_than_a_page_is_listed() -> None:
    sqs, wanted = client("sqs"), [GroupQueue(f"07457000000000000001.{n}", ordered=False) for n in range(1, 2_003)]
    urls = [f"https://sqs/1/g-{queue.subscription_id.replace('.', '-')}" for queue in wanted]
    with Stubber(sqs) as stub:
        for start, token in ((0, None), (1_000, "t1"), (2_000, "t2")):
            given = {"QueueNamePrefix": "g-", "MaxResults": 1_000} | ({"NextToken": token} if token else {})
            rest = {"NextToken": f"t{start // 1_000 + 1}"} if start < 2_000 else {}
            stub.add_response("list_queues", {"QueueUrls": urls[start : start + 1_000]} | rest, given)

        queues = SqsGroupQueues(sqs, lambda: sqs, "https://sqs/1/q", "g-", wiring.logger())
        assert list(queues.every()) == wanted
        stub.assert_no_pending_responses()


def test_every_object_and_every_former_version_of_more_than_a_page_is_listed() -> None:
    s3 = client("s3")
    objects = BucketObjects(s3, "archive")
    now, *former = (
        {"Key": key, "VersionId": version, "IsLatest": version == "2"}
        for key, version in (("r/a", "2"), ("r/a", "1"), ("r/b", "1"))
    )
    with Stubber(s3) as stub:
        asked = {"Bucket": "archive", "Prefix": "r/"}
        for page, token in ((["r/a", "r/b"], None), ([], "t1"), (["r/c"], "t2")):
            rest = {"IsTruncated": token != "t2", "NextContinuationToken": "t1" if token is None else "t2"}
            contents = {"Contents": [{"Key": key, "Size": 7} for key in page]}
            stub.add_response(
                "list_objects_v2", contents | rest, asked | ({"ContinuationToken": token} if token else {})
            )
        assert objects.sizes("r/") == {"r/a": 7, "r/b": 7, "r/c": 7}

        more = {"IsTruncated": True, "NextKeyMarker": "r/b", "NextVersionIdMarker": "3"}
        marker = {"DeleteMarkers": [{"Key": "r/b", "VersionId": "3", "IsLatest": True}]}
        stub.add_response("list_object_versions", {"Versions": [now, former[0]], **marker, **more}, asked)
        second = asked | {"KeyMarker": "r/b", "VersionIdMarker": "3"}
        stub.add_response("list_object_versions", {"Versions": former[1:], "IsTruncated": False}, second)
        # The marker of r/b goes last: without it, the version before would be the latest.
        gone = [{"Key": key, "VersionId": version} for key, version in (("r/a", "1"), ("r/b", "1"), ("r/b", "3"))]
        stub.add_response("delete_objects", {}, {"Bucket": "archive", "Delete": {"Objects": gone, "Quiet": True}})
        assert objects.purge("r/") == 3
        stub.assert_no_pending_responses()


def test_a_stack_that_starts_again_finds_waiting_lanes_on_more_than_a_page() -> None:
    dynamodb = client("dynamodb")
    engine: Any = SimpleNamespace(client=lambda service: dynamodb)
    with Stubber(dynamodb) as stub:
        described = {"Table": {"GlobalSecondaryIndexes": [{"IndexName": "wake"}]}}
        stub.add_response("describe_table", described, {"TableName": "t"})
        row = LANES.row_of(Lane("t", "1.0", LaneState.PAUSED, "7", 1, 0, None, None))
        lane = {name: to_attribute(value) for name, value in row.items()}
        for more, page in pages():
            lanes = page | {"Items": [lane | key for key in page["Items"]]}
            stub.add_response("scan", lanes, {"TableName": "t", "IndexName": "wake"} | more)

        assert names(_lanes(engine, "arn:aws:dynamodb:us-east-1:1:table/t/stream/1")) == list("abcde")
        stub.assert_no_pending_responses()


def test_the_archive_of_an_address_is_found_on_a_later_page_of_stacks_with_its_time_scale(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cloudformation, url = client("cloudformation"), "https://b.execute-api.eu-west-1.amazonaws.com"

    def stack(name: str) -> dict[str, Any]:
        outputs = {"Url": url.replace("/b.", f"/{name}."), "ArchiveBucketName": f"archive-{name}"}
        told = [{"OutputKey": key, "OutputValue": value} for key, value in outputs.items()]
        scale = [{"ParameterKey": "TimeScale", "ParameterValue": "10"}]
        status = {"StackName": name, "CreationTime": "2026-05-01", "StackStatus": "CREATE_COMPLETE"}
        return {**status, "Outputs": told, "Parameters": scale}

    with Stubber(cloudformation) as stub:
        stub.add_response("describe_stacks", {"Stacks": [stack("a")], "NextToken": "2"}, {})
        stub.add_response("describe_stacks", {"Stacks": [stack("b")]}, {"NextToken": "2"})
        monkeypatch.setattr(boto3, "Session", lambda **_: SimpleNamespace(client=lambda service: cloudformation))
        archive = Archive.of_deployment(f"{url}/", None, None)
        assert archive.uri == "s3://archive-b"
        assert audit_arguments(archive, Days.of(None, None), None, None)[-2:] == ["--time-scale", "10"]
        stub.assert_no_pending_responses()


def test_doctor_tells_alarms_of_all_pages_but_those_of_another_stack() -> None:
    cloudwatch = client("cloudwatch")
    asked = {"AlarmNamePrefix": "shop-", "StateValue": "ALARM"}
    with Stubber(cloudwatch) as stub:
        ringing = [{"AlarmName": "shop-eu-WorkFailures-1a"}, {"AlarmName": "shop-CmqErrors-YcHO1fVv"}]
        stub.add_response("describe_alarms", {"MetricAlarms": ringing, "NextToken": "2"}, asked)
        stub.add_response("describe_alarms", {"MetricAlarms": [{"AlarmName": "shop-WorkFailures-1A"}]})
        of = Deployment("shop", SimpleNamespace(client=lambda service: cloudwatch), lambda url: (200, {}))
        assert [each.check for each in check_alarms(of)] == ["shop-CmqErrors-YcHO1fVv", "shop-WorkFailures-1A"]
        stub.assert_no_pending_responses()


def test_everything_that_lists_is_tried_beyond_one_page() -> None:
    words = ("get_paginator(", "LastEvaluatedKey", "NextToken", "ContinuationToken", "next_page")
    folders = ("layers/tag_matching/python", "functions", "local", "clients", "glue_jobs")
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if any(word in path.read_text() for word in words)
    }
    assert found == LISTING

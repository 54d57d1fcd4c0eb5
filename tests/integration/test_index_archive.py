"""The archive of compiled indexes on S3 (moto)."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from moto import mock_aws
from tagcast_aws.store.index_archive import S3IndexArchive

from tests.fakes.log import Log
from tests.integration.scripted import ScriptedClient, refusal


def test_what_was_saved_is_loaded_and_what_is_missing_is_none() -> None:
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="indexes")
        log = Log()
        archive = S3IndexArchive(lambda: client, "indexes", log.logger)
        archive.save("t/1.json", b"[]")

        assert archive.load("t/1.json") == b"[]"
        assert archive.load("t/2.json") is None
        assert log.lines() == [], "an index that nobody saved yet is nothing to worry about"


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (refusal("NoSuchBucket"), "NoSuchBucket"),
        (EndpointConnectionError(endpoint_url="https://s3.test"), "EndpointConnectionError"),
    ],
)
def test_an_archive_out_of_reach_only_costs_time_and_is_told(fault: Exception, told: str) -> None:
    client: Any = ScriptedClient([fault, fault])
    log = Log()
    archive = S3IndexArchive(lambda: client, "indexes", log.logger)
    archive.save("t/1.json", b"[]")

    assert archive.load("t/1.json") is None
    assert [line["error"] for line in log.lines()] == [told, told]

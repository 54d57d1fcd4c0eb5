"""The archive of compiled indexes on S3."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from tagcast_aws.store.archives import S3IndexArchive

from tests.aws.small_account import SmallAccount
from tests.fakes.log import Log
from tests.integration.scripted import ScriptedClient, refusal


def test_what_was_saved_is_loaded_and_what_is_missing_is_none() -> None:
    client, log = SmallAccount().client("s3"), Log()
    archive = S3IndexArchive(lambda: client, "bucket", log.logger)
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

"""The archive of compiled indexes on S3 (moto)."""

from __future__ import annotations

import boto3
from aws_lambda_powertools import Logger
from moto import mock_aws
from tagcast_aws.store.index_archive import S3IndexArchive


def test_what_was_saved_is_loaded_and_what_is_missing_is_none() -> None:
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="indexes")
        archive = S3IndexArchive(lambda: client, "indexes", Logger(service="test"))
        archive.save("t/1.json", b"[]")

        assert archive.load("t/1.json") == b"[]"
        assert archive.load("t/2.json") is None


def test_an_archive_out_of_reach_only_costs_time() -> None:
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        archive = S3IndexArchive(lambda: client, "no-such-bucket", Logger(service="test"))
        archive.save("t/1.json", b"[]")

        assert archive.load("t/1.json") is None

"""Numbers and words of the template beside what they stand for: the code's own, or those of AWS."""

from typing import Any

import boto3
import pytest
from tagcast.archive.record import RecordKind
from tagcast.topic_settings import RETENTION_S_MAX
from tagcast_aws.dispatch import group_queues, queue
from tagcast_aws.store.dynamodb import WAKE_INDEX

from glue_jobs.package import JOBS
from local.console.archive_jobs import ENDED_WELL, UNDER_WAY
from local.rules.needs import Account
from local.template.intrinsics import Resolver
from local.template.translated import FUNCTION
from tests.aws.limits import STREAM_RETENTION_S
from tests.aws.stack import translated
from tests.simulation.fifo_queue import VISIBILITY_S

TEMPLATE = translated()
RESOLVER = Resolver(TEMPLATE, Account("123456789012", "us-east-1"))
STREAMS = [source for source in TEMPLATE.sources() if source.of_stream]

QUEUE_KEEPS_S_MAX = 14 * 86_400
"""AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html"""


def of(logical_id: str) -> dict[str, Any]:
    return dict(RESOLVER.value(TEMPLATE.resources[logical_id]["Properties"]))


def test_every_end_of_a_job_that_is_not_a_good_one_is_told() -> None:
    glue = boto3.client("glue", region_name="us-east-1")
    states = set(glue.meta.service_model.shape_for("JobRunState").enum)
    told = of("JobFailed")["EventPattern"]

    # Who stops a run knows it, and only a run that was queued expires.
    assert set(told["detail"]["state"]) == states - {*UNDER_WAY, ENDED_WELL, "STOPPED", "EXPIRED"}
    assert not any(job.get("JobRunQueuingEnabled") for _, job in TEMPLATE.of_type("AWS::Glue::Job"))
    assert set(told["detail"]["jobName"]) == {RESOLVER.name_of(name) for name, _ in TEMPLATE.of_type("AWS::Glue::Job")}
    assert len(told["detail"]["jobName"]) == len(JOBS)


def test_queues_keep_what_is_owed_longer_than_it_lives_and_what_failed_as_long_as_they_can() -> None:
    keeps = {name: each["MessageRetentionPeriod"] for name, each in TEMPLATE.of_type("AWS::SQS::Queue")}
    assert keeps.pop("DeliveryQueue") == group_queues.RETENTION_S > 2 * RETENTION_S_MAX
    assert set(keeps.values()) == {QUEUE_KEEPS_S_MAX}


def test_the_histories_hide_an_entry_of_the_queue_as_long_as_the_template() -> None:
    assert of("DeliveryQueue")["VisibilityTimeout"] == VISIBILITY_S


def test_the_queue_gives_as_many_at_once_as_one_request_takes() -> None:
    [source] = [each for each in TEMPLATE.sources() if not each.of_stream]
    assert source.properties["BatchSize"] == queue.BATCH_MAX


@pytest.mark.parametrize("source", STREAMS, ids=lambda source: source.logical_id)
def test_a_stream_is_read_from_its_beginning_and_given_up_while_it_still_holds_what_is_given_up(source: Any) -> None:
    given = source.properties
    assert given["StartingPosition"] == "TRIM_HORIZON"
    assert given["MaximumRecordAgeInSeconds"] <= 3 * STREAM_RETENTION_S // 4
    assert given["BisectBatchOnFunctionError"] is True
    assert given["MaximumRetryAttempts"] == -1, "AWS documents no pauses, so their number is no time"


@pytest.mark.parametrize(("alarm", "function"), [("RelayIteratorAge", "Relay"), ("ArchiveIteratorAge", "Archive")])
def test_an_alarm_rings_before_a_stream_gives_up(alarm: str, function: str) -> None:
    ages = [each.properties["MaximumRecordAgeInSeconds"] for each in STREAMS if each.function == f"{function}Function"]
    assert 0 < 10 * of(alarm)["Threshold"] <= 1_000 * min(ages)


@pytest.mark.parametrize("table", ["RegistryTable", "MessagesTable"])
def test_a_table_has_the_keys_the_stream_and_the_end_of_life_that_rows_rely_on(table: str) -> None:
    declared = of(table)
    assert [each["AttributeName"] for each in declared["KeySchema"]] == ["pk", "sk"]
    assert declared["StreamSpecification"] == {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    assert declared["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}
    indexes = declared.get("GlobalSecondaryIndexes", [])
    assert [each["IndexName"] for each in indexes] == ([WAKE_INDEX] if table == "MessagesTable" else [])
    for index in indexes:
        assert [each["AttributeName"] for each in index["KeySchema"]] == ["wake_shard", "wake_at"]
        assert index["Projection"] == {"ProjectionType": "ALL"}


def test_firehose_writes_each_kind_of_record_where_jobs_read_it() -> None:
    streams = [
        each["ExtendedS3DestinationConfiguration"]
        for _, each in TEMPLATE.of_type("AWS::KinesisFirehose::DeliveryStream")
    ]
    days = {f"raw/{kind.value}/dt=!{{timestamp:yyyy-MM-dd}}/hour=!{{timestamp:HH}}/" for kind in RecordKind}
    assert {each["Prefix"] for each in streams} == days
    # What the function puts is a member of a gzip file, and has its name.
    assert {(each["CompressionFormat"], each["FileExtension"]) for each in streams} == {("UNCOMPRESSED", ".gz")}
    assert {each["ErrorOutputPrefix"].partition("/")[0] for each in streams} == {"failed"}
    rules = of("ArchiveBucket")["LifecycleConfiguration"]["Rules"]
    expiring = {rule["Prefix"] for rule in rules if "Transitions" in rule}
    # Settings and filters stay in force, however old their records are.
    kinds = set(RecordKind) - {RecordKind.SUBSCRIPTIONS}
    assert expiring == {f"{stage}/{kind}/" for stage in ("raw", "curated") for kind in kinds}
    assert all(rule["ExpirationInDays"] for rule in rules if rule.get("Prefix") in expiring)


def test_reports_that_quote_messages_are_deleted_with_the_messages() -> None:
    """Backtests quote values, and certificates about one customer quote tags."""
    rules = {rule.get("Prefix"): rule for rule in of("ArchiveBucket")["LifecycleConfiguration"]["Rules"]}
    for prefix in ("reports/backtest/", "reports/audit/"):
        assert rules[prefix]["ExpirationInDays"] == rules["curated/messages/"]["ExpirationInDays"]


def test_no_delete_marker_of_the_archive_stays_for_ever() -> None:
    """A rule with days removes them under its prefix alone (AmazonS3/latest/userguide/ManagingDelMarkers.html)."""
    bucket = of("ArchiveBucket")
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    (everywhere,) = [rule for rule in bucket["LifecycleConfiguration"]["Rules"] if "Prefix" not in rule]
    assert everywhere["NoncurrentVersionExpiration"] == {"NoncurrentDays": 30}
    assert everywhere["ExpiredObjectDeleteMarker"] is True


SILENCES = ("SweepSilence", "ArchiveSilence")
"""Start when nothing happens."""


def test_whatever_an_alarm_watches_is_told_to_the_topic_that_the_owner_names() -> None:
    resolver = Resolver(TEMPLATE, RESOLVER.account, parameters={"AlarmTopicArn": "arn:aws:sns:us-east-1:1:t"})
    for name, alarm in resolver.of_type("AWS::CloudWatch::Alarm"):
        assert alarm["AlarmActions"] == ["arn:aws:sns:us-east-1:1:t"], name
        watched = alarm["ComparisonOperator"], alarm["TreatMissingData"]
        usual = ("GreaterThanThreshold", "notBreaching")
        assert watched == (("LessThanThreshold", "breaching") if name in SILENCES else usual), name


def test_functions_run_on_one_machine() -> None:
    assert {tuple(each["Architectures"]) for _, each in TEMPLATE.of_type(FUNCTION)} == {("arm64",)}

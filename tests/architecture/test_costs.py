"""What the documents say of costs is what the template and the counted calls cost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from local.rules.costs import OF_A_MESSAGE, usd_of_a_million_messages
from local.rules.limits import PRICES_USD
from local.template.translated import read_template
from tests.benchmarks.calls import BUDGETS
from tests.benchmarks.idle_bill import bill, nightly_jobs
from tests.benchmarks.member_bill import bill as member_bill

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
COSTS = (ROOT / "docs/speed-and-cost.md").read_text()
ARCHIVE = (ROOT / "docs/archive.md").read_text()
CONSUMERS = (ROOT / "docs/consumers.md").read_text()
TEMPLATE = read_template(ROOT / "template.yaml")


def test_every_item_of_the_idle_bill_is_told() -> None:
    table = COSTS.partition("| idle | USD a month |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| .* \| (\d+\.\d\d) \|$", table, re.MULTILINE)
    assert rows == [f"{usd:.2f}" for usd in bill(TEMPLATE).values()]


def test_what_a_million_messages_cost_is_told_and_within_what_was_counted() -> None:
    table = COSTS.partition("| item | count per message | USD per million messages |")[2].partition("\n\n")[0]
    said = [
        float(usd)
        for usd in re.findall(r"^\| (?:HTTP API|table|FIFO)[^|]*\|[^|]*\| (\d+\.\d\d) \|$", table, re.MULTILINE)
    ]
    estimated = usd_of_a_million_messages()

    assert said == [float(f"{estimated[name] + 1e-9:.2f}") for name in OF_A_MESSAGE]
    counted = {
        "table writes": "table writes",
        "table read units": "read units",
        "FIFO queue requests": "queue requests",
    }
    assert {name: BUDGETS[counted[name]] for name in counted} == {name: OF_A_MESSAGE[name][0] for name in counted}


def test_what_a_member_costs_is_in_the_page_of_consumers() -> None:
    table = CONSUMERS.partition("| a month of | USD |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| .* \| (\d+\.\d\d) \|$", table, re.MULTILINE)
    assert rows == [f"{usd:.2f}" for usd in member_bill(TEMPLATE).values()]


def test_the_sum_of_an_idle_month_is_told_in_both_places() -> None:
    idle = f"{sum(bill(TEMPLATE).values()):.2f} USD"
    assert f"**nothing happens** costs {idle}" in COSTS
    assert f"| alarms: {sum(1 for _ in TEMPLATE.of_type('AWS::CloudWatch::Alarm'))} |" in COSTS
    assert f"An idle deployment costs {idle} a month" in " ".join(README.split())


BILLED: dict[str, tuple[str, ...]] = {
    # What each type of resource costs, by rows of PRICES_USD; nothing where AWS does not charge for it.
    "AWS::ApiGatewayV2::Api": ("api gateway: a million requests of an HTTP API",),
    "AWS::ApiGatewayV2::Stage": ("cloudwatch: a GB of logs", "cloudwatch: a metric and month"),
    "AWS::Athena::NamedQuery": (),
    "AWS::Athena::WorkGroup": ("athena: a TB scanned",),
    "AWS::CloudWatch::Alarm": ("cloudwatch: an alarm and month",),
    "AWS::CloudWatch::Dashboard": ("cloudwatch: a dashboard and month",),
    "AWS::DynamoDB::Table": (
        "dynamodb: a million write request units",
        "dynamodb: a million read request units",
        "dynamodb: a GB and month",
    ),
    "AWS::Events::Rule": (),  # Events of AWS's own services and schedules, aws.amazon.com/eventbridge/pricing.
    "AWS::Glue::Database": (),
    "AWS::Glue::Job": ("glue: a DPU-hour",),
    "AWS::Glue::Table": (),  # The first million objects of a catalog are free, aws.amazon.com/glue/pricing.
    "AWS::Glue::Trigger": (),
    "AWS::Glue::Workflow": (),
    "AWS::IAM::Role": (),
    "AWS::KMS::Key": ("kms: a key and month", "kms: ten thousand requests"),
    "AWS::KinesisFirehose::DeliveryStream": ("firehose: a GB",),
    "AWS::Lambda::EventSourceMapping": (),  # Receives of a queue are billed as the queue's requests.
    "AWS::Lambda::Function": ("lambda: a million requests", "lambda: a GB-second on arm64", "x-ray: a million traces"),
    "AWS::Lambda::LayerVersion": (),
    "AWS::Lambda::Permission": (),
    "AWS::Lambda::Url": (),
    "AWS::Logs::LogGroup": ("cloudwatch: a GB of logs",),
    "AWS::Logs::LogStream": (),
    "AWS::S3::Bucket": ("s3: a GB and month", "s3: a thousand PUTs", "s3: a thousand GETs"),
    "AWS::S3::BucketPolicy": (),
    "AWS::SQS::Queue": ("sqs: a million FIFO requests of 64 KiB", "sqs: a million standard requests of 64 KiB"),
    "AWS::SQS::QueuePolicy": (),
    "AWS::SSM::Parameter": (),  # Standard parameters, aws.amazon.com/systems-manager/pricing.
    "AWS::SecretsManager::Secret": ("secretsmanager: a secret and month", "secretsmanager: ten thousand requests"),
    "AWS::StepFunctions::StateMachine": ("stepfunctions: a million transitions",),
}
CHOSEN_FREE = {
    # Properties that cost money unless they have this value, by default.
    ("AWS::ApiGatewayV2::Stage", "DefaultRouteSettings", "DetailedMetricsEnabled"): "false",
    ("AWS::Lambda::Function", "TracingConfig", "Mode"): "PassThrough",
    ("AWS::Lambda::Function", "ProvisionedConcurrencyConfig"): None,
    ("AWS::Lambda::Function", "SnapStart"): None,
    ("AWS::Lambda::Function", "EphemeralStorage"): None,
    ("AWS::DynamoDB::Table", "SSESpecification"): None,
    ("AWS::SQS::Queue", "KmsMasterKeyId"): None,
    ("AWS::SSM::Parameter", "Tier"): None,
    ("AWS::KinesisFirehose::DeliveryStream", "ExtendedS3DestinationConfiguration", "ProcessingConfiguration"): None,
    (
        "AWS::KinesisFirehose::DeliveryStream",
        "ExtendedS3DestinationConfiguration",
        "DynamicPartitioningConfiguration",
    ): None,
}


def _by_default(value: Any) -> Any:
    """Return what a property is with the default parameters; all conditions are false then."""
    if isinstance(value, dict) and "Fn::If" in value:
        return _by_default(value["Fn::If"][2])
    if isinstance(value, dict) and "Ref" in value:
        return None if value["Ref"] == "AWS::NoValue" else TEMPLATE.parameters[value["Ref"]].get("Default")
    return value


def test_every_billable_resource_has_a_price() -> None:
    assert {each["Type"] for each in TEMPLATE.resources.values()} - BILLED.keys() == set()
    assert {row for rows in BILLED.values() for row in rows} - PRICES_USD.keys() == set()


@pytest.mark.parametrize("place", CHOSEN_FREE)
def test_what_nobody_needs_costs_nothing_by_default(place: tuple[str, ...]) -> None:
    kind, *path = place
    for name, properties in TEMPLATE.of_type(kind):
        value: Any = properties
        for part in path:
            value = _by_default(value.get(part)) if isinstance(value, dict) else None
        assert value == CHOSEN_FREE[place], name


def test_the_jobs_that_run_every_night_are_counted() -> None:
    numbers = {3: "three", 4: "four", 5: "five"}
    assert f"{numbers[len(nightly_jobs(TEMPLATE))]} of them run every night" in ARCHIVE

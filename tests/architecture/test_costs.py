"""What the documents say of costs is what the template and the counted calls cost."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tagcast.sealing import OPENED_S
from tagcast_aws.store.signing_key import SIGNING_KEY_KEPT_S

from local.rules.costs import MONTH_S, OF_A_MESSAGE, usd_of_a_million_messages, usd_of_search
from tests.aws.prices import PRICES_USD
from tests.aws.stack import translated
from tests.benchmarks.idle_bill import bill, member_bill, nightly_jobs
from tests.benchmarks.twinning.bill import search_pass
from tests.benchmarks.twinning.lockstep import BUDGETS

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
COSTS = (ROOT / "docs/speed-and-cost.md").read_text()
ARCHIVE = (ROOT / "docs/archive.md").read_text()
LIMITS = (ROOT / "docs/limits.md").read_text()
EGRESS = (ROOT / "docs/egress.md").read_text()
METRICS = (ROOT / "docs/metrics.md").read_text()
FILTERS = (ROOT / "docs/filters.md").read_text()
CONSUMERS = (ROOT / "docs/consumers.md").read_text()
TEMPLATE = translated()


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
    assert f"**nothing happens** costs {idle}" in " ".join(COSTS.split())
    assert f"| alarms: {sum(1 for _ in TEMPLATE.of_type('AWS::CloudWatch::Alarm'))} |" in COSTS
    assert f"An idle deployment costs {idle} a month" in " ".join(README.split())


BILLED: dict[str, dict[str, tuple[str, ...]]] = {
    # What each property costs, by rows of PRICES_USD; the key "" is of the resource itself.
    "AWS::ApiGatewayV2::Api": {"Body": ("api gateway: a million requests of an HTTP API",)},
    "AWS::ApiGatewayV2::Stage": {
        "AccessLogSettings": ("cloudwatch: a GB of logs",),
        "DefaultRouteSettings": ("cloudwatch: a metric and month",),
        "RouteSettings": ("cloudwatch: a metric and month",),
    },
    "AWS::Athena::WorkGroup": {"WorkGroupConfiguration": ("athena: a TB scanned",)},
    "AWS::CloudWatch::Alarm": {"": ("cloudwatch: an alarm and month",)},
    "AWS::CloudWatch::Dashboard": {"": ("cloudwatch: a dashboard and month",)},
    "AWS::DynamoDB::Table": {
        "": ("dynamodb: a GB and month",),
        "BillingMode": ("dynamodb: a million write request units", "dynamodb: a million read request units"),
        "GlobalSecondaryIndexes": ("dynamodb: a million write request units", "dynamodb: a GB and month"),
        "PointInTimeRecoverySpecification": ("dynamodb: a GB and month of point-in-time recovery",),
        "SSESpecification": ("kms: ten thousand requests",),
    },
    "AWS::Glue::Job": {
        "NumberOfWorkers": ("glue: a DPU-hour",),
        "WorkerType": ("glue: a DPU-hour",),
        "Timeout": ("glue: a DPU-hour",),
        "MaxRetries": ("glue: a DPU-hour",),
    },
    "AWS::KMS::Key": {
        "": ("kms: a key and month", "kms: ten thousand requests"),
        "EnableKeyRotation": ("kms: a rotation and month",),
    },
    "AWS::KinesisFirehose::DeliveryStream": {
        "ExtendedS3DestinationConfiguration": ("firehose: a GB", "s3: a thousand PUTs", "cloudwatch: a GB of logs"),
    },
    "AWS::Lambda::EventSourceMapping": {
        "BatchSize": ("sqs: a million FIFO requests of 64 KiB", "lambda: a million requests"),
    },
    "AWS::Lambda::Function": {
        "": ("lambda: a million requests",),
        "MemorySize": ("lambda: a GB-second on arm64",),
        "LoggingConfig": ("cloudwatch: a GB of logs",),
        "TracingConfig": ("x-ray: a million traces",),
    },
    "AWS::Logs::LogGroup": {"RetentionInDays": ("cloudwatch: a GB and month of logs",)},
    "AWS::S3::Bucket": {
        "": ("s3: a GB and month", "s3: a thousand PUTs", "s3: a thousand GETs"),
        "LifecycleConfiguration": (
            "s3: a GB and month of Glacier Instant Retrieval",
            "s3: a thousand transitions to Glacier Instant Retrieval",
        ),
        "VersioningConfiguration": ("s3: a GB and month",),
        # EventBridge bills events of data: https://aws.amazon.com/eventbridge/pricing, "AWS opt-in data events".
        "NotificationConfiguration": ("events: a million custom or opt-in events",),
    },
    "AWS::SQS::Queue": {
        "": ("sqs: a million standard requests of 64 KiB",),
        "FifoQueue": ("sqs: a million FIFO requests of 64 KiB",),
    },
    "AWS::SecretsManager::Secret": {
        "": ("secretsmanager: a secret and month", "secretsmanager: ten thousand requests")
    },
    "AWS::StepFunctions::StateMachine": {"StateMachineType": ("stepfunctions: a million transitions",)},
}
FREE: dict[str, str] = {
    # What AWS charges nothing for.
    "AWS::ApiGatewayV2::Stage": "ApiId AutoDeploy StageName Tags",
    "AWS::Athena::NamedQuery": "Database Description Name QueryString WorkGroup",
    "AWS::Athena::WorkGroup": "Name RecursiveDeleteOption",
    "AWS::CloudFormation::Stack": "Parameters TemplateURL",  # The URL of a function.
    "AWS::CloudWatch::Alarm": "AlarmActions AlarmDescription ComparisonOperator DatapointsToAlarm Dimensions "
    "EvaluationPeriods ExtendedStatistic MetricName Namespace Period Statistic Threshold TreatMissingData",
    "AWS::CloudWatch::Dashboard": "DashboardBody DashboardName",
    "AWS::DynamoDB::Table": "AttributeDefinitions KeySchema StreamSpecification TimeToLiveSpecification",
    "AWS::Events::Rule": "Description EventPattern ScheduleExpression Targets",  # AWS's own events, and schedules.
    "AWS::Glue::Database": "CatalogId DatabaseInput",  # The first million objects, aws.amazon.com/glue/pricing.
    "AWS::Glue::Job": "Command DefaultArguments Description ExecutionProperty GlueVersion Name Role",
    "AWS::Glue::Table": "CatalogId DatabaseName TableInput",
    "AWS::Glue::Trigger": "Actions Name Predicate Schedule StartOnCreation Type WorkflowName",
    "AWS::Glue::Workflow": "Description MaxConcurrentRuns Name",
    "AWS::IAM::Role": "AssumeRolePolicyDocument ManagedPolicyArns Policies Tags",
    "AWS::KMS::Key": "Description KeyPolicy",
    "AWS::KinesisFirehose::DeliveryStream": "DeliveryStreamEncryptionConfigurationInput DeliveryStreamName "
    "DeliveryStreamType",
    "AWS::Lambda::EventInvokeConfig": "DestinationConfig FunctionName MaximumEventAgeInSeconds MaximumRetryAttempts "
    "Qualifier",
    "AWS::Lambda::EventSourceMapping": "BisectBatchOnFunctionError DestinationConfig EventSourceArn FilterCriteria "
    "FunctionName FunctionResponseTypes MaximumBatchingWindowInSeconds MaximumRecordAgeInSeconds MaximumRetryAttempts "
    "ScalingConfig StartingPosition",
    "AWS::Lambda::Function": "Architectures Code Description Environment FunctionName Handler Layers "
    "ReservedConcurrentExecutions Role Runtime Tags Timeout VpcConfig",
    "AWS::Lambda::LayerVersion": "CompatibleArchitectures CompatibleRuntimes Content Description LayerName",
    "AWS::Lambda::Permission": "Action FunctionName Principal SourceArn",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::Logs::LogStream": "LogGroupName LogStreamName",
    "AWS::S3::Bucket": "BucketEncryption OwnershipControls PublicAccessBlockConfiguration",
    "AWS::S3::BucketPolicy": "Bucket PolicyDocument",
    "AWS::SQS::Queue": "DeduplicationScope FifoThroughputLimit MessageRetentionPeriod SqsManagedSseEnabled "
    "VisibilityTimeout",
    "AWS::SQS::QueuePolicy": "PolicyDocument Queues",
    "AWS::SSM::Parameter": "AllowedPattern Description Type Value",  # Standard, aws.amazon.com/systems-manager/pricing.
    "AWS::SecretsManager::Secret": "Description GenerateSecretString Name",
    "AWS::StepFunctions::StateMachine": "DefinitionS3Location DefinitionSubstitutions RoleArn StateMachineName Tags",
}
AROUND = {name for name in PRICES_USD if name.startswith(("ec2: ", "vpc: "))}
"""Prices of what the template does not have: traffic to the internet, and the owner's own network."""
CHOSEN_FREE = {
    # Properties that cost money unless they have this value, by default.
    ("AWS::ApiGatewayV2::Stage", "DefaultRouteSettings", "DetailedMetricsEnabled"): "false",
    ("AWS::ApiGatewayV2::Stage", "RouteSettings", "GET /health", "DetailedMetricsEnabled"): False,
    ("AWS::ApiGatewayV2::Stage", "RouteSettings", "GET /openapi.json", "DetailedMetricsEnabled"): False,
    ("AWS::Lambda::Function", "TracingConfig", "Mode"): "PassThrough",
    ("AWS::Lambda::Function", "ProvisionedConcurrencyConfig"): None,
    ("AWS::Lambda::Function", "SnapStart"): None,
    ("AWS::Lambda::Function", "EphemeralStorage"): None,
    ("AWS::DynamoDB::Table", "SSESpecification", "SSEEnabled"): False,
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


def unpriced(resources: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Return the properties that have no known price."""
    used = {(each["Type"], name) for each in resources.values() for name in ("", *each.get("Properties", {}))}
    known = {(kind, name) for kind, names in FREE.items() for name in ("", *names.split())}
    return used - known - {(kind, name) for kind, names in BILLED.items() for name in ("", *names)}


def test_every_property_of_the_template_has_a_price_or_is_free() -> None:
    assert unpriced(TEMPLATE.resources) == set()
    priced = {row for properties in BILLED.values() for rows in properties.values() for row in rows}
    assert priced | AROUND == PRICES_USD.keys()
    assert not any(name in FREE.get(kind, "").split() for kind, names in BILLED.items() for name in names)


def test_a_property_without_a_price_is_found() -> None:
    costly = {
        "Type": "AWS::DynamoDB::Table",
        "Properties": {"BillingMode": "x", "ContributorInsightsSpecification": {}},
    }
    assert unpriced({"T": costly, "N": {"Type": "AWS::EC2::NatGateway"}}) == {
        ("AWS::DynamoDB::Table", "ContributorInsightsSpecification"),
        ("AWS::EC2::NatGateway", ""),
    }


def test_what_a_rotated_key_and_the_search_cost_is_told() -> None:
    costs = " ".join(COSTS.split())
    assert f"{PRICES_USD['kms: a rotation and month']:.2f} USD more after each of its first two years" in costs
    assert f"| the search for lost work | 3 read units at most | {usd_of_search():.2f} |" in costs
    # A hundred processes that push all the time decrypt secrets, and read the seed, whenever their cache expires.
    opened = 100 * MONTH_S / OPENED_S / 1e4 * PRICES_USD["kms: ten thousand requests"]
    seed = 100 * MONTH_S / SIGNING_KEY_KEPT_S / 1e4 * PRICES_USD["secretsmanager: ten thousand requests"]
    assert (
        f"decrypting secrets costs {opened:.2f} USD a month, and reading the signing seed costs {seed:.2f} USD" in costs
    )


def test_what_fixed_addresses_cost_is_told() -> None:
    hours = MONTH_S / 3_600
    gateway = hours * (PRICES_USD["vpc: a NAT gateway and hour"] + PRICES_USD["vpc: a public address and hour"])
    endpoint = hours * PRICES_USD["vpc: an interface endpoint in a zone and hour"]
    gigabytes = [PRICES_USD[f"vpc: a GB through {way}"] for way in ("a NAT gateway", "an interface endpoint")]
    told = " ".join(EGRESS.split())
    assert f"A NAT gateway costs {gateway:.2f} USD a month and {gigabytes[0]} USD per GB" in told
    assert f"{endpoint:.2f} USD a zone and month and {gigabytes[1]} USD per GB" in told


def test_what_the_largest_use_of_a_parameter_costs_is_told() -> None:
    def told(parameter: str) -> str:
        return " ".join(TEMPLATE.parameters[parameter]["Description"].split())

    rate = TEMPLATE.parameters["RequestsPerSecond"]["Default"]
    millions = int(rate) * MONTH_S / 1e6
    [singly] = re.findall(r"^\| 3 \| (\d\.\d\d) \|", COSTS, re.MULTILINE)
    assert f"At {rate} a route can cost {millions * float(singly):,.0f} USD a month" in told("RequestsPerSecond")
    anonymous = PRICES_USD["api gateway: a million requests of an HTTP API"] + PRICES_USD["lambda: a million requests"]
    assert f"for {anonymous:.2f} USD a million requests" in told("CmqEndpoint")
    assert f"RequestsPerSecond {rate} that is {millions * anonymous:,.0f} USD a month" in told("CmqEndpoint")
    metric = PRICES_USD["cloudwatch: a metric and month"]
    assert f"{51 * 9 * metric:.0f} USD for a topic with more" in told("MetricTopics")
    assert f"({9_180 * metric:,.0f} USD)" in METRICS
    assert f"for {PRICES_USD['x-ray: a million traces']:.0f} USD a million traces" in told("Tracing")


def test_what_calls_of_filter_functions_cost_is_told() -> None:
    calls = 1_000 * PRICES_USD["lambda: a million requests"]
    assert f"messages to 1,000 such subscriptions cost up to {calls:.0f} USD" in " ".join(FILTERS.split())


def test_the_documented_passes_of_the_search_follow_from_its_pace() -> None:
    passes = [search_pass(rate) for rate in (100, 1_000, 5_000)]
    hours = [f"{each.hours:.1f} h" for each in passes]
    sentence = f"a pass takes {hours[0]} at 100 messages a second, {hours[1]} at 1,000, and {hours[2]} at 5,000."
    assert sentence in " ".join(LIMITS.split())
    assert max(each.usd_a_million for each in passes) <= usd_of_search()


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

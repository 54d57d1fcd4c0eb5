"""A deployment succeeds every time: what CloudFormation and the services refuse is not in the translated template."""

import json
import re
from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest
from tagcast.queues import GroupQueue
from tagcast_aws.dispatch.group_queues import queue_name

from local.rules.needs import Account
from local.template.intrinsics import Resolver
from local.template.translated import FUNCTION
from tests.architecture.test_documents import table_rows, text_of
from tests.aws.stack import translated

TEMPLATE = translated()
RESOURCES = TEMPLATE.resources
NAME_CHARS_MAX = {
    # Pages are those of https://docs.aws.amazon.com.
    "AWS::Athena::WorkGroup": ("Name", 128),  # athena/latest/APIReference/API_WorkGroup.html
    "AWS::CloudWatch::Dashboard": ("DashboardName", 255),
    "AWS::Glue::Database": ("DatabaseInput.Name", 255),  # glue/latest/webapi/API_DatabaseInput.html
    "AWS::Glue::Job": ("Name", 255),
    "AWS::Glue::Trigger": ("Name", 255),
    "AWS::Glue::Workflow": ("Name", 255),
    "AWS::KinesisFirehose::DeliveryStream": ("DeliveryStreamName", 64),  # firehose/latest/APIReference
    "AWS::Lambda::Function": ("FunctionName", 64),  # lambda/latest/api/API_CreateFunction.html
    "AWS::Logs::LogGroup": ("LogGroupName", 512),
    "AWS::SecretsManager::Secret": ("Name", 512),
    "AWS::StepFunctions::StateMachine": ("StateMachineName", 80),
}
QUEUE_NAME_CHARS_MAX = 80  # AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html
LONGEST = re.compile(RESOURCES["StackNameFits"]["Properties"]["AllowedPattern"])


def longest_name() -> str:
    return next(name for n in range(128, 0, -1) if LONGEST.fullmatch(name := "s" * n))


def in_region(region: str, stack: str) -> Resolver:
    return Resolver(TEMPLATE, Account("123456789012", region), stack=stack)


def names_made() -> Iterator[tuple[str, str, int]]:
    """Logical id, name in the stack with the longest name, and what the service allows."""
    resolver = in_region("us-gov-west-1", longest_name())
    for logical_id, resource in RESOURCES.items():
        where, chars_max = NAME_CHARS_MAX.get(resource["Type"], ("", 0))
        value: Any = resource.get("Properties", {})
        for part in where.split("."):
            value = value.get(part) if part else None
        if isinstance(value, dict):
            yield logical_id, str(resolver.value(value)), chars_max


def test_a_stack_with_the_longest_name_that_is_taken_has_no_name_that_a_service_refuses() -> None:
    made = list(names_made())
    assert len(made) > 30
    assert [(name, len(name)) for _, name, chars_max in made if len(name) > chars_max] == []
    prefix = RESOURCES["PublishFunction"]["Properties"]["Environment"]["Variables"]["GROUP_QUEUES"]["Fn::Sub"]
    group = GroupQueue("07457000000000000001.9999999", ordered=True)
    queue = queue_name(prefix.replace("${AWS::StackName}", longest_name()), group)
    assert len(queue) <= QUEUE_NAME_CHARS_MAX


def test_no_stack_has_a_name_with_capitals_which_glue_does_not_keep() -> None:
    """For Hive a database's name is all lower case (glue/latest/webapi/API_CreateTable.html)."""
    assert [name for name in ("shop", "shop-2", "Shop", "shopEU", "2shop", "s" * 41) if LONGEST.fullmatch(name)] == [
        "shop",
        "shop-2",
    ]
    made = {logical_id: name for logical_id, name, _ in names_made()}
    assert made["ArchiveDatabase"].islower()


def test_the_archives_database_has_a_name_that_athena_takes() -> None:
    """Of special characters Athena takes _ alone (athena/latest/ug/tables-databases-columns-names.html)."""
    name = in_region("us-east-1", "shop-2-eu").value(
        RESOURCES["ArchiveDatabase"]["Properties"]["DatabaseInput"]["Name"]
    )
    assert name == "shop_2_eu_archive"


def test_stacks_of_one_name_in_two_regions_have_two_dashboards() -> None:
    """Dashboards are global (AWSCloudFormation/latest/TemplateReference/aws-resource-cloudwatch-dashboard.html)."""
    given = RESOURCES["Dashboard"]["Properties"]["DashboardName"]
    names = {in_region(region, "shop").value(given) for region in ("us-east-1", "eu-west-1")}
    assert names == {"shop-us-east-1", "shop-eu-west-1"}


def test_every_route_with_settings_of_its_own_exists() -> None:
    """API Gateway refuses a stage that names another route."""
    (stage,) = [properties for _, properties in TEMPLATE.of_type("AWS::ApiGatewayV2::Stage")]
    existing = {
        f"{'ANY' if route.method.startswith('X-') else route.method} {route.path}" for route in TEMPLATE.routes()
    }
    assert stage["RouteSettings"].keys() <= existing


def test_an_account_with_many_logging_apis_takes_another() -> None:
    """A policy of 5,120 characters lists each other log group (step-functions/latest/dg/bp-cwl.html)."""
    (stage,) = [properties for _, properties in TEMPLATE.of_type("AWS::ApiGatewayV2::Stage")]
    (logs, _) = stage["AccessLogSettings"]["DestinationArn"]["Fn::GetAtt"]
    assert in_region("us-east-1", "shop").name_of(logs).startswith("/aws/vendedlogs/")


SETTINGS_BYTES_MAX = 4_096  # lambda/latest/dg/gettingstarted-limits.html
MADE_UP = {"AWS::DynamoDB::Table": 14, "AWS::KMS::Key": 36, "AWS::S3::Bucket": 14, "AWS::SQS::Queue": 14}
"""The characters that CloudFormation appends to the names that it makes, for example -1A2B3C4D5E6F7."""
CHOSEN = {
    "ArchiveBodies": "ARCHIVE_BODIES",
    "DeadLetterTopics": "DEAD_LETTER_TOPICS",
    "JwtScopePrefix": "JWT_SCOPE_PREFIX",
    "MetricTopics": "METRIC_TOPICS",
}


def test_the_parameters_that_an_owner_may_write_at_length_fit_as_the_document_says() -> None:
    resolver = in_region("us-gov-west-1", longest_name())
    rows = [row for row in table_rows("docs/limits.md", "what", "value", "constant") if "`ArchiveBodies`" in row[0]]
    ((chars, names),) = [(int(value.replace(",", "")), re.findall(r"`(\w+)`", what)) for what, value, _ in rows]
    assert sorted(names) == sorted(CHOSEN)
    made = sum(MADE_UP.get(resource["Type"], 0) for resource in RESOURCES.values())
    for _, function in TEMPLATE.of_type(FUNCTION):
        settings = resolver.value(function["Environment"]["Variables"])
        assert not any(settings[name] for name in CHOSEN.values())
        others = sum(len(name) + len(str(value)) for name, value in settings.items())
        assert made + others + chars <= SETTINGS_BYTES_MAX


def test_every_bucket_refuses_connections_that_are_not_encrypted() -> None:
    refusing = {
        policy["Bucket"]["Ref"]: {
            json.dumps(each["Resource"], sort_keys=True) for each in policy["PolicyDocument"]["Statement"]
        }
        for _, policy in TEMPLATE.of_type("AWS::S3::BucketPolicy")
        if all(
            each["Effect"] == "Deny" and each["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
            for each in policy["PolicyDocument"]["Statement"]
        )
    }
    assert refusing == {
        name: {json.dumps([{"Fn::GetAtt": [name, "Arn"]}, {"Fn::Sub": f"${{{name}.Arn}}/*"}])}
        for name, _ in TEMPLATE.of_type("AWS::S3::Bucket")
    }


def test_every_resource_whose_name_begins_with_the_stacks_has_a_known_bound() -> None:
    named = {
        resource["Type"]
        for resource in RESOURCES.values()
        for key, value in resource.get("Properties", {}).items()
        if key.endswith("Name") and isinstance(value, dict) and "AWS::StackName" in json.dumps(value)
    }
    assert named - NAME_CHARS_MAX.keys() == set()


@pytest.mark.parametrize("parameter", ["ArchiveKeptDays", "RequestsPerSecond"])
def test_a_zero_is_refused_where_it_would_not_mean_that_there_is_no_bound(parameter: str) -> None:
    """S3 refuses a rule of 0 days, and API Gateway then every request (terraform-aws-modules, apigateway-v2, 59)."""
    assert TEMPLATE.parameters[parameter].get("MinValue") == 1


@pytest.mark.parametrize(
    ("scale", "is_taken"), [("1", True), ("0.5", True), ("10", True), ("0", False), ("0.0", False)]
)
def test_no_delay_is_divided_by_zero(scale: str, is_taken: bool) -> None:
    assert bool(re.search(TEMPLATE.parameters["TimeScale"]["AllowedPattern"], scale)) is is_taken


def test_every_region_has_every_type_of_resource_that_the_template_names() -> None:
    """Elsewhere CloudFormation refuses the whole template, even if a condition leaves the resource out."""
    from cfnlint.helpers import REGIONS  # It takes half a second of each worker that collects these tests.
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

    types = {resource["Type"] for resource in RESOURCES.values()}
    lacking = {region: types - set(PROVIDER_SCHEMA_MANAGER.get_resource_types(region)) for region in REGIONS}
    assert {region: each for region, each in lacking.items() if each} == {}


@pytest.mark.parametrize(("key", "managed"), [("aws-owned", False), ("aws-managed", True)])
def test_the_key_of_the_tables_can_change_and_change_back(key: str, managed: bool) -> None:
    """CloudFormation refuses an update or a rollback that takes SSESpecification away (aws/aws-cdk, 8286 and 8450)."""
    resolver = Resolver(TEMPLATE, Account("123456789012", "us-east-1"), parameters={"TableKey": key})
    tables = [table for _, table in resolver.of_type("AWS::DynamoDB::Table")]
    assert [table.get("SSESpecification") for table in tables] == [{"SSEEnabled": managed}] * 2


def another_value(parameter: dict[str, Any]) -> str:
    """Return a value that CloudFormation accepts instead of the default."""
    samples = [*map(str, parameter.get("AllowedValues", ())), "4", "8", "a:b", "x"]
    pattern, default = re.compile(parameter.get("AllowedPattern", "")), str(parameter.get("Default"))
    return next(each for each in samples if each != default and pattern.search(each))


def at(value: Any, path: list[str]) -> list[Any]:
    """Return what a resource has at the path of its schema; `*` stands for each of a list."""
    if not path:
        return [value]
    if isinstance(value, list):
        return [found for each in value for found in at(each, path[1:] if path[0] == "*" else path)]
    return at(value[path[0]], path[1:]) if isinstance(value, dict) and path[0] in value else []


def unchangeable(parameters: dict[str, str]) -> dict[str, dict[str, list[Any]]]:
    """Return what CloudFormation cannot change without replacing the resource, by logical id and path."""
    from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER  # It takes half a second of each worker.

    resolver = Resolver(TEMPLATE, Account("123456789012", "us-east-1"), parameters=parameters)
    found: dict[str, dict[str, list[Any]]] = {}
    for kind in {resource["Type"] for resource in RESOURCES.values()}:
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
        paths = [*schema.get("createOnlyProperties", ()), *schema.get("conditionalCreateOnlyProperties", ())]
        for name, properties in resolver.of_type(kind):
            found[name] = {path: at(properties, path.split("/")[2:]) for path in paths}
    return found


@pytest.mark.parametrize("parameter", TEMPLATE.parameters)
def test_a_parameter_that_changes_replaces_no_resource_and_takes_none_with_data_away(parameter: str) -> None:
    before, after = unchangeable({}), unchangeable({parameter: another_value(TEMPLATE.parameters[parameter])})
    assert {name: after[name] for name in before} == before
    assert after.keys() - before.keys() <= {"DailyRetain", "PublishFunctionUrl"}


def test_nothing_is_left_behind_by_a_creation_that_was_rolled_back() -> None:
    """Retain keeps tables, buckets and keys under made-up names also when their creation fails."""
    whens = ("DeletionPolicy", "UpdateReplacePolicy")
    policies = {name: tuple(each.get(when, "Delete") for when in whens) for name, each in RESOURCES.items()}
    assert set(policies.values()) == {("Delete", "Delete"), ("RetainExceptOnCreate", "Retain")}
    kept = {name for name, policy in policies.items() if policy != ("Delete", "Delete")}
    assert kept == {"ArchiveBucket", "MessagesTable", "RegistryTable", "SecretsKey"}


@pytest.mark.parametrize("name", ["ArchiveBucket", "MessagesTable", "RegistryTable", "SecretsKey"])
def test_what_a_deleted_stack_leaves_can_be_imported_before_everything_else_is_created(name: str) -> None:
    """An import takes nothing but what exists (AWSCloudFormation/latest/UserGuide/resource-import.html)."""
    kept = json.dumps(RESOURCES[name])
    assert [other for other in RESOURCES if re.search(rf'"{other}"|\$\{{{other}[.}}]', kept)] == []


def children_of_workflows() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, trigger in TEMPLATE.of_type("AWS::Glue::Trigger"):
        found.setdefault(trigger["WorkflowName"]["Ref"], []).append(name)
    return found


@pytest.mark.parametrize("workflow", children_of_workflows())
@pytest.mark.parametrize("there", ["all", "unconditional"])
def test_triggers_of_one_workflow_are_made_and_removed_one_after_the_other(workflow: str, there: str) -> None:
    """Glue refuses two changes of one workflow at once, and CloudFormation does not try again."""
    names = [name for name in children_of_workflows()[workflow] if there == "all" or "Condition" not in RESOURCES[name]]
    waits_for = {name: RESOURCES[name].get("DependsOn", []) for name in names}
    waits_for = {name: [each] if isinstance(each, str) else each for name, each in waits_for.items()}
    line = [name for name in names if not waits_for[name]]
    while len(line) <= len(names) and (following := [name for name in names if line[-1] in waits_for[name]]):
        line += following
    assert line == names


def test_a_resource_waits_only_for_what_is_there_whenever_it_is() -> None:
    for name, resource in RESOURCES.items():
        waits = resource.get("DependsOn", [])
        for other in [waits] if isinstance(waits, str) else waits:
            condition = RESOURCES[other].get("Condition")
            assert condition is None or condition == resource.get("Condition"), (name, other)


def test_tables_can_be_restored_as_the_document_says() -> None:
    document = text_of("docs/deploy.md")
    assert "The registry table has point-in-time recovery, the messages table only with" in document
    for chosen in ("false", "true"):
        resolver = Resolver(TEMPLATE, Account("123456789012", "us-east-1"), parameters={CHOICE: chosen})
        tables = dict(resolver.of_type("AWS::DynamoDB::Table"))
        recovery = {
            name: str(each["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]).lower()
            for name, each in tables.items()
        }
        assert recovery == {"RegistryTable": "true", "MessagesTable": chosen}
        assert not any("TableName" in each or "DeletionProtectionEnabled" in each for each in tables.values())
    assert TEMPLATE.parameters[CHOICE]["Default"] == "false"


CHOICE = "MessagesPointInTimeRecovery"


def test_the_event_source_of_a_restored_table_gets_every_setting_of_the_former() -> None:
    (query,) = re.findall(r"get-event-source-mapping --uuid UUID --query '\{(.+?)\}'", text_of("docs/deploy.md"))
    copied = dict(pair.split(": ") for pair in query.split(", "))
    created = set(service_model("CreateEventSourceMapping").input_shape.members)
    known = set(service_model("GetEventSourceMapping").output_shape.members)
    settings = {name for source in TEMPLATE.sources() if source.of_stream for name in source.properties}
    assert copied.keys() == settings - {"EventSourceArn", "StartingPosition"} <= created
    assert set(copied.values()) <= known


def service_model(operation: str) -> Any:
    """Return Lambda's model of an operation."""
    return botocore.session.get_session().get_service_model("lambda").operation_model(operation)


def test_every_log_stream_that_is_named_exists() -> None:
    """Firehose makes none by itself; its role may only write to them."""
    streams = {(each["LogGroupName"]["Ref"], name): each for name, each in TEMPLATE.of_type("AWS::Logs::LogStream")}
    for name, stream in TEMPLATE.of_type("AWS::KinesisFirehose::DeliveryStream"):
        told = stream["ExtendedS3DestinationConfiguration"]["CloudWatchLoggingOptions"]
        assert (told["LogGroupName"]["Ref"], told["LogStreamName"]["Ref"]) in streams, name

"""What the template names exists in the code, and what the code needs is named in the template."""

import ast
import json
import pkgutil
import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tagcast.registry.groups import PUBLISHED_S
from tagcast.rows import keys
from tagcast.rows.keys import kind_of
from tagcast_aws import api
from tagcast_aws.api.http.authorization import TokenScope
from tagcast_aws.api.routes import MANAGE, PUBLISH, PULL
from tagcast_aws.cmq.form import PATHS
from tagcast_aws.runtime.settings import Reach, Settings
from tagcast_aws.runtime.telemetry import UNITS

from functions.retry.app import RESERVE_S
from local.engine.callers import role_of, roles_of
from local.front.authorizer import read_authorizer
from local.rules.limits import HTTP_API_TIMEOUT_S
from local.rules.needs import Account
from local.rules.permissions import Need
from local.sources.event_pattern import matches
from local.template.intrinsics import Resolver
from local.template.translated import FUNCTION, SourceSpec
from tests.aws.limits import LAMBDA_FULL_CPU_MB
from tests.aws.stack import translated
from tests.template import template_source

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = translated()
RESOLVER = Resolver(TEMPLATE, Account("123456789012", "us-east-1"))
FUNCTIONS = dict(TEMPLATE.of_type(FUNCTION))
SOURCES = TEMPLATE.sources()
STREAMS = [source for source in SOURCES if source.of_stream]
ALARMS = dict(TEMPLATE.of_type("AWS::CloudWatch::Alarm"))
OWN_METRICS = "tagcast"
SEARCH = (
    r"SEARCH\('\{tagcast,service,topic,subscription\} MetricName=\"(?P<metric>\w+)\""
    r" service=\"\$\{AWS::StackName\}\"', '(p\d+|Sum|Maximum)', 300\)"
)
"""How the dashboard asks for a metric of all subscriptions that have it."""
ANY_METHOD = "X-AMAZON-APIGATEWAY-ANY-METHOD"
"""The CMQ endpoint tells itself what is no GET or POST, in CMQ's words."""
# Of https://docs.aws.amazon.com: lambda/latest/dg/monitoring-metrics-types.html, sqs-available-cloudwatch-metrics.html,
# step-functions/latest/dg/procedure-cw-metrics.html, apigateway/latest/developerguide/http-api-metrics.html,
# firehose/latest/dev/cloudwatch-metrics.html.
METRICS = {
    "AWS/Lambda": {"Invocations", "Errors", "Throttles", "Duration", "IteratorAge", "ConcurrentExecutions"}
    | {"UrlRequestCount", "UrlRequestLatency", "Url4xxCount", "Url5xxCount"},
    "AWS/SQS": {"ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage", "NumberOfMessagesSent"},
    "AWS/States": {"ExecutionsStarted", "ExecutionsFailed", "ExecutionsAborted", "ExecutionsTimedOut"},
    "AWS/Firehose": {"DeliveryToS3.DataFreshness"},
    "AWS/ApiGateway": {"Count", "4xx", "5xx", "Latency", "IntegrationLatency", "DataProcessed"},
}
DIMENSIONS = {
    "AWS/Lambda": ("FunctionName", FUNCTION),
    "AWS/SQS": ("QueueName", "AWS::SQS::Queue"),
    "AWS/Firehose": ("DeliveryStreamName", "AWS::KinesisFirehose::DeliveryStream"),
    "AWS/States": ("StateMachineArn", "AWS::StepFunctions::StateMachine"),
}


def key_prefixes() -> set[str]:
    """How the partition keys begin that the code makes, such as `MSG#`."""
    return {f"{name}#" for name in re.findall(r'"([A-Z]+)#', Path(keys.__file__).read_text())}


@cache
def literals(folder: str) -> frozenset[str]:
    """Every string that the code under a folder writes out."""
    trees = [ast.parse(path.read_text()) for path in (ROOT / folder).rglob("*.py")]
    return frozenset(
        node.value
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def test_the_routes_of_the_template_are_the_routes_of_the_code() -> None:
    declared = {(route.method, route.path, route.function) for route in TEMPLATE.routes()}
    functions = {"PublishFunction": PUBLISH, "PullFunction": PULL, "ManageFunction": MANAGE}
    served = {(route.method, route.path, function) for function, routes in functions.items() for route in routes}
    served |= {(ANY_METHOD, path, "CmqFunction") for path in PATHS}
    assert {(method, path, function) for method, path, function in declared if path != "$default"} == served
    assert [function for _, path, function in declared if path == "$default"] == ["ManageFunction"]


def test_manage_serves_every_room_of_the_api_but_publishing_pulling_and_tails() -> None:
    names = [name for _, name, _ in pkgutil.walk_packages(api.__path__, f"{api.__name__}.") if "__main__" not in name]
    rooms = {name.removeprefix("tagcast_aws.api."): getattr(import_module(name), "ROUTES", ()) for name in names}
    others = {room for room, routes in rooms.items() if not all(route in MANAGE for route in routes)}

    assert sum(map(bool, rooms.values())) > 8
    assert {room.partition(".")[0] for room in others} == {"publishing", "pulling", "tail"}


@pytest.mark.parametrize(("parameters", "signed_otherwise"), [({}, ()), ({"CmqEndpoint": "true"}, PATHS)])
def test_public_routes_of_the_code_need_no_signature(
    parameters: dict[str, str], signed_otherwise: tuple[str, ...]
) -> None:
    resolver = Resolver(TEMPLATE, RESOLVER.account, parameters=parameters)
    public = {route.path for route in (*PUBLISH, *PULL, *MANAGE) if route.is_public} | set(signed_otherwise)
    api = next(properties for _, properties in TEMPLATE.of_type("AWS::ApiGatewayV2::Api"))
    unsigned = {
        path
        for path, methods in api["Body"]["paths"].items()
        for operation in methods.values()
        if resolver.value(operation["security"]) != [{"AWS_IAM": []}]
    }
    assert unsigned == public
    assert list(resolver.value(api["Body"]["components"]["securitySchemes"])) == ["AWS_IAM"]


def test_every_open_route_has_a_rate_of_its_own_but_those_whose_requests_are_signed_for_cmq() -> None:
    open_to_all = [route for route in (*PUBLISH, *PULL, *MANAGE) if route.is_public]
    (stage,) = [properties for _, properties in RESOLVER.of_type("AWS::ApiGatewayV2::Stage")]
    rates = {
        name: (each["ThrottlingRateLimit"], each["ThrottlingBurstLimit"])
        for name, each in stage["RouteSettings"].items()
    }
    assert rates == {f"{route.method} {route.path}": (10, 10) for route in open_to_all}
    assert float(stage["DefaultRouteSettings"]["ThrottlingRateLimit"]) > 10


@pytest.mark.parametrize("chosen", ["true", "false"])
def test_a_route_with_a_rate_of_its_own_has_metrics_as_the_others(chosen: str) -> None:
    """Settings of a route replace all of the stage's."""
    resolver = Resolver(TEMPLATE, RESOLVER.account, parameters={"RouteMetrics": chosen})
    (stage,) = [properties for _, properties in resolver.of_type("AWS::ApiGatewayV2::Stage")]
    assert stage["DefaultRouteSettings"]["DetailedMetricsEnabled"] == chosen
    assert {each["DetailedMetricsEnabled"] for each in stage["RouteSettings"].values()} == {chosen == "true"}


@pytest.mark.parametrize(("tokens", "scheme"), [({}, "AWS_IAM"), ({"JwtIssuer": "https://issuer"}, "JWT")])
def test_without_programs_of_cmq_the_api_refuses_anyone_at_their_routes(tokens: dict[str, str], scheme: str) -> None:
    resolver = Resolver(TEMPLATE, RESOLVER.account, parameters=tokens)
    needed = {route.path: resolver.value(route.security) for route in TEMPLATE.routes()}
    assert [[list(each) for each in needed[path]] for path in PATHS] == [[[scheme]]] * len(PATHS)
    assert {path for path, security in needed.items() if not security} == {"/health", "/openapi.json"}


def test_the_template_asks_for_the_scopes_of_the_code() -> None:
    named = {
        "JwtIssuer": "https://issuer",
        "JwtAudience": "a,b",
        "JwtScopePrefix": "tagcast/",
        "CmqEndpoint": "true",
    }
    grounds = read_authorizer(Resolver(TEMPLATE, RESOLVER.account, parameters=named))
    assert grounds is not None
    assert (grounds.issuer, grounds.audiences) == ("https://issuer", ("a", "b"))
    asked = {route: set(scopes) for route, scopes in grounds.scopes.items()}
    assert [asked.pop((ANY_METHOD, path)) for path in PATHS] == [set(), set()]
    anything = asked.pop((ANY_METHOD, "$default"))
    assert anything == {f"tagcast/{scope}" for scope in TokenScope}
    assert asked == {
        (route.method, route.path): {f"tagcast/{scope}" for scope in route.scopes}
        for route in (*PUBLISH, *PULL, *MANAGE)
    }
    assert read_authorizer(RESOLVER) is None


def test_audiences_without_an_issuer_are_not_taken_for_signatures() -> None:
    """API Gateway refuses a JWT authorizer without an issuer; signatures would be accepted instead of tokens."""
    lone = read_authorizer(Resolver(TEMPLATE, RESOLVER.account, parameters={"JwtAudience": "a"}))
    assert lone is not None
    assert (lone.issuer, lone.audiences) == ("", ("a",))


def _sort_keys(pattern: Mapping[str, Any]) -> list[str]:
    """Return sort keys of each form that a filter asks for; most let any through."""
    asked = pattern["dynamodb"]["Keys"].get("sk", {"S": ["x"]})["S"]
    return [each if isinstance(each, str) else f"{each['prefix']}1" for each in asked]


@pytest.mark.parametrize("source", STREAMS, ids=lambda source: source.logical_id)
def test_every_filter_of_a_stream_is_about_keys_that_the_code_makes(source: SourceSpec) -> None:
    assert source.filters
    for pattern in source.filters:
        (rule,) = pattern["dynamodb"]["Keys"]["pk"]["S"]
        if isinstance(rule, str):
            assert rule == keys.sweep_key().pk
        else:
            assert rule["prefix"] in key_prefixes()
        for sk in _sort_keys(pattern):
            row = {"pk": {"S": rule if isinstance(rule, str) else f"{rule['prefix']}x"}, "sk": {"S": sk}}
            names = pattern.get("eventName", ["INSERT"])
            assert all(matches(pattern, {"eventName": name, "dynamodb": {"Keys": row}}) for name in names)


def test_the_archive_is_given_every_change_of_the_sweeps_row_which_its_alarm_waits_for() -> None:
    change = {"eventName": "MODIFY", "dynamodb": {"Keys": {"pk": {"S": "SWEEP"}, "sk": {"S": "SWEEP"}}}}
    given = {each.logical_id for each in STREAMS if any(matches(pattern, change) for pattern in each.filters)}
    assert given == {"ArchiveFunctionMessageRows"}


def test_the_relay_is_given_what_its_stream_reads_and_nothing_else() -> None:
    source = next(each for each in SOURCES if each.function == "RelayFunction")
    prefixes = [(each["dynamodb"]["Keys"]["pk"]["S"][0]["prefix"], each) for each in source.filters]
    given = {kind_of({"pk": f"{pk}x", "sk": sk}).name for pk, each in prefixes for sk in _sort_keys(each)}
    read = set(re.findall(r"\bRowKind\.(\w+)", _text("layers/tag_matching/python/tagcast_aws/store/stream.py")))
    assert given == read


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.logical_id)
def test_every_source_reports_failures_item_by_item(source: SourceSpec) -> None:
    assert source.properties["FunctionResponseTypes"] == ["ReportBatchItemFailures"]


@pytest.mark.parametrize("source", STREAMS, ids=lambda source: source.logical_id)
def test_what_a_stream_gives_up_is_told_where_its_function_may_write(source: SourceSpec) -> None:
    destination = source.properties["DestinationConfig"]["OnFailure"]["Destination"]
    (logical_id, attribute) = destination["Fn::GetAtt"]
    arn = RESOLVER.value(destination)
    kind, needs = {
        "RelayFunction": ("AWS::SQS::Queue", [("sqs:SendMessage", arn)]),
        "ArchiveFunction": ("AWS::S3::Bucket", [("s3:PutObject", f"{arn}/aws/lambda/1"), ("s3:ListBucket", arn)]),
    }[source.function]
    assert (TEMPLATE.resources[logical_id]["Type"], attribute) == (kind, "Arn")
    role = roles_of(RESOLVER)[role_of(TEMPLATE, source.function)]
    for action, resource in needs:
        assert role.allows(Need(action, resource)), action


def test_objects_of_kept_changes_live_as_long_as_the_messages_that_name_them() -> None:
    bucket, queue = (TEMPLATE.resources[name]["Properties"] for name in ("KeptChanges", "ArchiveFailures"))
    [rule] = bucket["LifecycleConfiguration"]["Rules"]
    assert rule["ExpirationInDays"] * 86_400 == queue["MessageRetentionPeriod"]


@pytest.mark.parametrize(
    "source", [each for each in SOURCES if not each.of_stream], ids=lambda source: source.logical_id
)
def test_a_queue_outwaits_its_function_six_times(source: SourceSpec) -> None:
    queue = TEMPLATE.resources[source.properties["EventSourceArn"]["Fn::GetAtt"][0]]["Properties"]
    assert queue["VisibilityTimeout"] >= 6 * FUNCTIONS[source.function]["Timeout"]


@pytest.mark.parametrize(
    ("parameter", "chosen", "setting", "value"),
    [
        ("EndpointVerification", None, "verification_optional", False),
        ("EndpointVerification", "optional", "verification_optional", True),
        ("AllowPrivateEndpoints", None, "reach", Reach.PUBLIC),
        ("AllowPrivateEndpoints", "true", "reach", Reach.PRIVATE),
        ("AllowPrivateEndpoints", "any", "reach", Reach.ANY),
        ("CmqVerification", None, "cmq_verification", False),
        ("CmqVerification", "true", "cmq_verification", True),
    ],
)
def test_what_a_deployment_chose_is_what_its_functions_do(
    parameter: str, chosen: str | None, setting: str, value: object
) -> None:
    parameters = {} if chosen is None else {parameter: chosen}
    resolver = Resolver(TEMPLATE, RESOLVER.account, parameters=parameters)
    environment = resolver.value(FUNCTIONS["ManageFunction"]["Environment"]["Variables"])
    settings = Settings({name: str(each) for name, each in environment.items()})
    assert getattr(settings, setting) is value


def test_functions_of_the_api_end_before_the_api_gives_up() -> None:
    for function in {route.function for route in TEMPLATE.routes()}:
        assert FUNCTIONS[function]["Timeout"] < HTTP_API_TIMEOUT_S


def test_the_retry_function_has_time_beside_its_reserve() -> None:
    assert FUNCTIONS["RetryFunction"]["Timeout"] > 2 * RESERVE_S


def test_the_sweep_ends_before_it_begins_again() -> None:
    rule = next(rule for _, rule in TEMPLATE.of_type("AWS::Events::Rule") if "ScheduleExpression" in rule)
    minutes = re.fullmatch(r"rate\((\d+) minutes\)", rule["ScheduleExpression"])
    assert minutes is not None
    assert FUNCTIONS["SweepFunction"]["Timeout"] < 60 * int(minutes[1])


@pytest.mark.parametrize("name", ALARMS)
def test_every_alarm_watches_a_metric_that_exists(name: str) -> None:
    alarm = ALARMS[name]
    _check_metric(alarm["Namespace"], alarm["MetricName"])
    (dimension,) = alarm["Dimensions"]
    if alarm["Namespace"] == OWN_METRICS:
        assert dimension == {"Name": "service", "Value": {"Ref": "AWS::StackName"}}
        return
    wanted, kind = DIMENSIONS[alarm["Namespace"]]
    owner = dimension["Value"].get("Ref") or dimension["Value"]["Fn::GetAtt"][0]
    assert (dimension["Name"], TEMPLATE.resources[owner]["Type"]) == (wanted, kind)
    if alarm["MetricName"] == "IteratorAge":
        assert owner in {source.function for source in STREAMS}


def test_an_alarm_tells_that_no_sweep_ran_since_the_alarms_on_its_metrics_then_rest() -> None:
    (alarm,) = [
        each
        for each in ALARMS.values()
        if each["MetricName"] == "Invocations" and RESOLVER.value(each["Dimensions"][0]["Value"]) == "tagcast-sweep"
    ]
    assert (alarm["ComparisonOperator"], alarm["Threshold"]) == ("LessThanThreshold", 1)
    assert alarm["TreatMissingData"] == "breaching"
    (every,) = [
        rule["ScheduleExpression"] for _, rule in TEMPLATE.of_type("AWS::Events::Rule") if "ScheduleExpression" in rule
    ]
    assert every == "rate(5 minutes)"
    assert alarm["Period"] * alarm["EvaluationPeriods"] >= 3 * 300


def test_the_dashboard_shows_metrics_that_exist() -> None:
    (dashboard,) = [properties for _, properties in TEMPLATE.of_type("AWS::CloudWatch::Dashboard")]
    widgets = json.loads(dashboard["DashboardBody"]["Fn::Sub"])["widgets"]
    shown = [metric for widget in widgets for metric in widget["properties"]["metrics"]]
    assert shown
    for metric in shown:
        if isinstance(metric[0], str):
            _check_metric(*metric[:2])
        else:
            found = re.fullmatch(SEARCH, metric[0]["expression"])
            assert found is not None, metric
            assert found["metric"] in UNITS


def _check_metric(namespace: str, metric: str) -> None:
    if namespace == OWN_METRICS:
        variables = FUNCTIONS["SweepFunction"]["Environment"]["Variables"]
        assert variables["POWERTOOLS_METRICS_NAMESPACE"] == OWN_METRICS
        assert metric in literals("functions") | literals("layers/tag_matching/python")
    else:
        assert metric in METRICS[namespace]


def _text(path: str) -> str:
    return (ROOT / path).read_text()


def test_every_function_is_watched_for_errors_and_throttles() -> None:
    watched = {
        (alarm["Dimensions"][0]["Value"]["Ref"], alarm["MetricName"])
        for alarm in ALARMS.values()
        if alarm["Namespace"] == "AWS/Lambda"
    }
    assert {(name, metric) for name in FUNCTIONS for metric in ("Errors", "Throttles")} <= watched


@pytest.mark.parametrize("chosen", ["true", "false"])
def test_the_function_publish_alone_has_a_url_if_it_is_asked_for_and_iam_judges_its_callers(chosen: str) -> None:
    resolver = Resolver(TEMPLATE, RESOLVER.account, parameters={"PublishUrl": chosen})
    stacks = [properties for _, properties in resolver.of_type("AWS::CloudFormation::Stack")]
    file, publish = "functions/publish_url.yaml", resolver.arn("PublishFunction")
    assert stacks == ([{"TemplateURL": file, "Parameters": {"Function": publish}}] if chosen == "true" else [])
    assert TEMPLATE.outputs["PublishUrl"]["Condition"] == "HasPublishUrl"
    (url,) = template_source(ROOT / file)["Resources"].values()
    assert url["Type"] == "AWS::Lambda::Url"
    assert url["Properties"] == {"TargetFunctionArn": {"Ref": "Function"}, "AuthType": "AWS_IAM"}


@pytest.mark.parametrize("level", ["DEBUG", "INFO", "WARNING", "ERROR"])
def test_lambda_drops_no_line_that_a_function_writes_whatever_it_keeps_of_its_own(level: str) -> None:
    """It takes a line of metrics for one at INFO, and has levels for JSON alone."""
    for own, expected in (
        ("INFO", {"LogFormat": "Text"}),
        (
            "WARN",
            {
                "LogFormat": "JSON",
                "SystemLogLevel": "WARN",
                "ApplicationLogLevel": "DEBUG" if level == "DEBUG" else "INFO",
            },
        ),
    ):
        resolver = Resolver(TEMPLATE, RESOLVER.account, parameters={"SystemLogLevel": own, "LogLevel": level})
        for _, function in resolver.of_type(FUNCTION):
            assert function["LoggingConfig"].pop("LogGroup")
            assert function["LoggingConfig"] == expected


def test_fan_out_has_a_whole_processor_unless_its_owner_chooses_less() -> None:
    memory = TEMPLATE.parameters["FanOutMemory"]
    assert memory["Default"] == max(memory["AllowedValues"]) == LAMBDA_FULL_CPU_MB


CONCURRENCY = {
    "PublishConcurrency": "PublishFunction",
    "PullConcurrency": "PullFunction",
    "RetryConcurrency": "RetryFunction",
}


@pytest.mark.parametrize("parameter", [*CONCURRENCY, None])
@pytest.mark.parametrize("chosen", ["0", "7"])
def test_a_function_reserves_the_concurrency_that_its_owner_chose_and_no_other_does(
    parameter: str | None, chosen: str
) -> None:
    parameters = {} if parameter is None else {parameter: chosen}
    resolver = Resolver(TEMPLATE, RESOLVER.account, parameters=parameters)
    reserved = {
        name: function["ReservedConcurrentExecutions"]
        for name, function in resolver.of_type(FUNCTION)
        if "ReservedConcurrentExecutions" in function
    }
    assert reserved == ({} if parameter is None or chosen == "0" else {CONCURRENCY[parameter]: chosen})


@pytest.mark.parametrize(("chosen", "expected"), [(None, None), ("0", None), ("2", {"MaximumConcurrency": "2"})])
def test_the_queue_starts_as_many_invocations_at_once_as_its_owner_chose(
    chosen: str | None, expected: dict[str, str] | None
) -> None:
    parameters = {} if chosen is None else {"FanOutConcurrency": chosen}
    resolver = Resolver(TEMPLATE, RESOLVER.account, parameters=parameters)
    settings = {source.logical_id: resolver.value(dict(source.properties)).get("ScalingConfig") for source in SOURCES}
    assert settings.pop("FanOutFunctionDeliveries") == expected
    assert set(settings.values()) == {None}, "Lambda refuses it for streams"


def test_a_maximum_that_lambda_refuses_is_refused_before_the_deployment() -> None:
    """It accepts 2 to 1000 (lambda/latest/dg/services-sqs-scaling.html)."""
    pattern = re.compile(TEMPLATE.parameters["FanOutConcurrency"]["AllowedPattern"])
    accepted = [number for number in range(1_200) if pattern.search(str(number))]
    assert accepted == [0, *range(2, 1_001)]
    assert not any(map(pattern.search, ("", "-2", "02", "2.5", " 2", "10000")))


def test_functions_and_layer_are_built_for_the_same_python() -> None:
    layer = next(properties for _, properties in TEMPLATE.of_type("AWS::Lambda::LayerVersion"))
    runtimes = {properties["Runtime"] for properties in FUNCTIONS.values()}
    assert runtimes == set(layer["CompatibleRuntimes"]) == {"python3.13"}


def test_whoever_makes_a_group_and_publishes_without_it_are_over_when_late_entries_are_looked_for() -> None:
    slowest = max(
        FUNCTIONS[name]["Timeout"] for name in ("PublishFunction", "PullFunction", "ManageFunction", "CmqFunction")
    )
    assert 2 * slowest <= PUBLISHED_S

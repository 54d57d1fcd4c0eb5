"""What the roles of the template may do, as IAM would decide it."""

import re
from pathlib import Path

import pytest
from tagcast.model import Endpoint, Protocol
from tagcast_aws.endpoints.guard import Guard

from local.engine.callers import InvocationRights, callers_of, role_of, roles_of
from local.rules.needs import Account
from local.rules.permissions import Need, decide, grants_of
from local.template.intrinsics import Resolver
from local.template.parameters import ANY_SUBSCRIBER
from local.template.translated import FUNCTION
from tests.aws.stack import translated

ROOT = Path(__file__).resolve().parents[2]
PUSHERS = ["FanOutFunction", "RetryFunction"]
ASKING = [
    "/topics/{topic}/subscriptions/{subscription}",
    "/topics/{topic}/subscriptions/{subscription}/verify",
    "/v2/index.php",
]
"""Routes whose functions ask endpoints whether they agree."""
OTHERS = [
    Need("sqs:SendMessage", "arn:aws:sqs:us-east-1:123456789012:subscriber"),
    Need("lambda:InvokeFunction", "arn:aws:lambda:us-east-1:123456789012:function:subscriber"),
]
CHINA = Account("123456789012", "cn-north-1", "aws-cn")
ACCOUNT = Account("123456789012", "us-east-1")
TEMPLATE = translated()
RESOLVER = Resolver(TEMPLATE, ACCOUNT, parameters=ANY_SUBSCRIBER)
ROLES = roles_of(RESOLVER)


@pytest.mark.parametrize("function", PUSHERS)
def test_who_pushes_can_never_push_to_a_queue_or_function_of_the_service(function: str) -> None:
    pusher = ROLES[role_of(TEMPLATE, function)]
    own = [Need("sqs:SendMessage", RESOLVER.arn(queue)) for queue, _ in TEMPLATE.of_type("AWS::SQS::Queue")]
    for each, _ in TEMPLATE.of_type(FUNCTION):
        own += [Need("lambda:InvokeFunction", f"{RESOLVER.arn(each)}{version}") for version in ("", ":1", ":$LATEST")]
    assert not [need.resource for need in own if pusher.allows(need)]
    assert all(pusher.allows(need) for need in OTHERS)


def test_no_endpoint_can_name_a_function_of_the_service() -> None:
    resolver = Resolver(TEMPLATE, ACCOUNT)
    settings = TEMPLATE.resources["FanOutFunction"]["Properties"]["Environment"]["Variables"]
    guard = Guard(own_functions=str(resolver.value(settings["FUNCTIONS"])))
    for each, _ in TEMPLATE.of_type(FUNCTION):
        whole = resolver.arn(each)
        for target in (whole, f"{whole}:1", whole.rpartition(":")[2], f"{whole.rpartition(':')[2]}:$LATEST"):
            assert (
                guard.refusal(Endpoint(Protocol.LAMBDA, target))
                == "begins with the stack's name and -, like the functions of the service"
            )
    assert guard.refusal(Endpoint(Protocol.LAMBDA, "subscriber")) is None


@pytest.mark.parametrize("function", PUSHERS)
def test_what_is_handed_over_goes_to_the_queues_of_groups_which_no_endpoint_can_name(function: str) -> None:
    resolver = Resolver(TEMPLATE, ACCOUNT)
    roles = roles_of(resolver)
    made_later = {
        grant.resource for role in roles.values() for grant in role.grants if grant.action == "sqs:CreateQueue"
    }
    environment = TEMPLATE.resources[function]["Properties"]["Environment"]["Variables"]
    prefix = str(resolver.value(environment["GROUP_QUEUES"]))
    assert made_later == {f"arn:aws:sqs:us-east-1:123456789012:{prefix}*"}
    assert roles[role_of(TEMPLATE, function)].allows(Need("sqs:SendMessage", made_later.pop().replace("*", "x")))
    guard = Guard(own_queues=prefix)
    for target in (f"{prefix}x", f"{prefix}x.fifo"):
        assert guard.refusal(Endpoint(Protocol.SQS, f"arn:aws:sqs:us-east-1:123456789012:{target}")) is not None
        url = f"https://sqs.us-east-1.amazonaws.com/123456789012/{target}"
        assert guard.refusal(Endpoint(Protocol.SQS, url)) is not None


@pytest.mark.parametrize("function", PUSHERS)
def test_unless_the_account_names_them_no_queue_and_no_function_can_be_an_endpoint(function: str) -> None:
    def allowed(**parameters: str) -> list[str]:
        resolver = Resolver(TEMPLATE, ACCOUNT, parameters=parameters)
        pusher = roles_of(resolver)[role_of(TEMPLATE, function)]
        return [need.action for need in OTHERS if pusher.allows(need)]

    assert allowed() == []
    assert allowed(SubscriberQueueNames="subscr*") == ["sqs:SendMessage"]
    assert allowed(SubscriberFunctionNames="subscr*") == ["lambda:InvokeFunction"]
    assert allowed(SubscriberQueueNames="x*", SubscriberFunctionNames="x*") == []


def test_only_who_reaches_endpoints_does_so_from_the_subnets_that_are_named() -> None:
    make = Need("ec2:CreateNetworkInterface", "*")

    def placed(**parameters: str) -> dict[str, object]:
        resolver = Resolver(TEMPLATE, ACCOUNT, parameters=parameters)
        roles, found = roles_of(resolver), {}
        for name, function in TEMPLATE.of_type(FUNCTION):
            role = roles[role_of(TEMPLATE, name)]
            by_code = {"lambda:SourceFunctionArn": str(resolver.value({"Fn::GetAtt": [name, "Arn"]}))}
            assert not role.allows(make, by_code), name
            place = resolver.value(function).get("VpcConfig")
            assert role.allows(make) is bool(place), name
            if place:
                found[name] = place
        return found

    asking = {route.function for route in TEMPLATE.routes() if route.path in ASKING}
    within = {"SubnetIds": ["subnet-1", "subnet-2"], "SecurityGroupIds": ["sg-1"]}
    assert placed() == {}
    assert placed(EgressSubnetIds="subnet-1,subnet-2", EgressSecurityGroupIds="sg-1") == dict.fromkeys(
        {*PUSHERS, *asking}, within
    )
    # Lambda refuses an empty name, so a security group without subnets is not ignored.
    assert placed(EgressSecurityGroupIds="sg-1") == dict.fromkeys({*PUSHERS, *asking}, within | {"SubnetIds": [""]})


def test_interfaces_in_subnets_that_are_no_longer_named_are_deleted_by_lambda_and_not_by_code() -> None:
    """Lambda deletes them by the function's role, and the role changes before the function (aws-cdk issue 34400)."""
    resolver = Resolver(TEMPLATE, ACCOUNT)
    roles = roles_of(resolver)
    asking = {route.function for route in TEMPLATE.routes() if route.path in ASKING}
    for name in {*PUSHERS, *asking}:
        by_code = {"lambda:SourceFunctionArn": str(resolver.value({"Fn::GetAtt": [name, "Arn"]}))}
        for action in ("ec2:DescribeNetworkInterfaces", "ec2:DeleteNetworkInterface", "ec2:UnassignPrivateIpAddresses"):
            delete = Need(action, "*")
            assert roles[role_of(TEMPLATE, name)].allows(delete), (name, action)
            assert not roles[role_of(TEMPLATE, name)].allows(delete, by_code), (name, action)


BY_AWS = "AWS's own policy for all functions says so"
NO_RESOURCE = "the action knows no resources"
ON_EVERYTHING = {
    "logs:CreateLogGroup": BY_AWS,
    "logs:CreateLogStream": BY_AWS,
    "logs:PutLogEvents": BY_AWS,
    "xray:GetSamplingRules": NO_RESOURCE,
    "xray:GetSamplingStatisticSummaries": NO_RESOURCE,
    "xray:GetSamplingTargets": NO_RESOURCE,
    "xray:PutTelemetryRecords": NO_RESOURCE,
    "xray:PutTraceSegments": NO_RESOURCE,
    "ec2:AssignPrivateIpAddresses": "Lambda makes interfaces in subnets that the account names; the code is denied it",
    "ec2:CreateNetworkInterface": "as above",
    "ec2:DeleteNetworkInterface": "as above",
    "ec2:DescribeNetworkInterfaces": NO_RESOURCE,
    "ec2:DescribeSubnets": NO_RESOURCE,
    "ec2:UnassignPrivateIpAddresses": "as above",
    "sqs:ListQueues": NO_RESOURCE,
}
"""What a role may do to everything in the account, each with the reason."""


def test_what_a_role_may_do_to_everything_is_listed_with_its_reason() -> None:
    given = {"EgressSubnetIds": "subnet-1", "EgressSecurityGroupIds": "sg-1"}
    given |= {"SubscriberQueueNames": "subscr*", "SubscriberFunctionNames": "subscr*"}
    resolver = Resolver(TEMPLATE, ACCOUNT, parameters=given)
    allowed = [grant for role in roles_of(resolver).values() for grant in role.grants if grant.allows]
    assert {grant.action for grant in allowed if is_everything(grant.resource)} == set(ON_EVERYTHING)


def is_everything(resource: str) -> bool:
    """Say whether a pattern names a kind of resource at most."""
    before, star, _ = resource.split(":", 5)[-1].partition("*")
    return (
        bool(star)
        and re.fullmatch(r"((function|key|secret|stateMachine|log-group):|\w*(table|stream|bus)/)?", before) is not None
    )


@pytest.mark.parametrize(
    "resource",
    ["*", "arn:aws:sqs:us-east-1:1:*", "arn:aws:dynamodb:us-east-1:1:table/*", "arn:aws:lambda:*:*:function:*"],
)
def test_a_pattern_without_a_name_is_everything(resource: str) -> None:
    assert is_everything(resource)


def test_what_reads_a_queue_or_a_stream_may_read_that_and_no_other() -> None:
    of_queues = ["sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"]
    of_streams = [f"dynamodb:{word}" for word in ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")]
    sources = {(each.function, str(RESOLVER.value(each.properties["EventSourceArn"]))) for each in TEMPLATE.sources()}
    for function, role in ((each, ROLES[role_of(TEMPLATE, each)]) for each, _ in sources):
        for action in (*of_queues, *of_streams):
            known = {source for _, source in sources if source.startswith(f"arn:aws:{action.partition(':')[0]}:")}
            readable = {source for source in known if role.allows(Need(action, source))}
            assert readable == {source for whose, source in sources if whose == function and source in known}
    for each in TEMPLATE.sources():
        destination = each.properties.get("DestinationConfig")
        if destination is not None:
            told = str(RESOLVER.value(destination["OnFailure"]["Destination"]))
            need = Need("s3:PutObject", f"{told}/x") if ":s3:" in told else Need("sqs:SendMessage", told)
            assert ROLES[role_of(TEMPLATE, each.function)].allows(need)


def test_no_function_makes_its_log_group_again_when_the_stack_is_gone() -> None:
    """Lambda writes the last lines late. What it makes for them has no retention, and the next stack fails over it."""
    for name, function in TEMPLATE.of_type(FUNCTION):
        role, logs = ROLES[role_of(TEMPLATE, name)], RESOLVER.arn(function["LoggingConfig"]["LogGroup"]["Ref"])
        assert role.allows(Need("logs:PutLogEvents", logs)), name
        assert not role.allows(Need("logs:CreateLogGroup", logs.removesuffix(":*"))), name


def test_publish_may_know_that_an_index_is_absent() -> None:
    assert ROLES["PublishFunctionRole"].allows(Need("s3:ListBucket", RESOLVER.arn("IndexBucket")))


@pytest.mark.parametrize("prefix", ["Prefix", "ErrorOutputPrefix"])
def test_firehose_may_write_wherever_its_streams_say(prefix: str) -> None:
    for logical_id, stream in TEMPLATE.of_type("AWS::KinesisFirehose::DeliveryStream"):
        destination = stream["ExtendedS3DestinationConfiguration"]
        key = f"{RESOLVER.arn('ArchiveBucket')}/{destination[prefix].partition('!')[0]}x"
        assert ROLES[role_of(TEMPLATE, logical_id)].allows(Need("s3:PutObject", key)), logical_id


def test_the_rule_of_failed_jobs_may_write_to_its_queue_and_no_other_may() -> None:
    policy = RESOLVER.value(TEMPLATE.resources["JobFailuresPolicy"]["Properties"]["PolicyDocument"])
    assert {each["Principal"]["Service"] for each in policy["Statement"]} == {"events.amazonaws.com"}
    need = Need("sqs:SendMessage", RESOLVER.arn("JobFailures"))
    for rule, allowed in ((RESOLVER.arn("JobFailed"), True), ("arn:aws:events:us-east-1:1:rule/x", False)):
        assert (decide(grants_of(policy), need, {"aws:SourceArn": rule}) is not None) is allowed


def test_the_api_and_the_schedule_may_invoke_what_they_are_routed_to() -> None:
    rights = InvocationRights(TEMPLATE, RESOLVER)
    for route in TEMPLATE.routes():
        assert rights.allow_route(route.method, route.path, route.function), route
    for rule, function in TEMPLATE.schedules():
        assert rights.allow_rule(rule, function)
        assert not rights.allow_rule(rule, "RelayFunction")
    assert not rights.allow_route("POST", "/topics/{topic}/messages", "SweepFunction")


def test_each_function_has_credentials_of_its_own_and_its_own_role() -> None:
    callers = callers_of(TEMPLATE, RESOLVER)
    names = [callers.roles[credentials.access_key].name for credentials in callers.functions.values()]
    assert sorted(names) == sorted(f"{lid}Role" for lid, _ in TEMPLATE.of_type(FUNCTION))
    assert callers.roles[callers.jobs.access_key].name == "JobRole"


def test_nothing_names_a_partition() -> None:
    for role in roles_of(Resolver(TEMPLATE, CHINA)).values():
        assert not [grant for grant in role.grants if grant.resource.startswith("arn:aws:")], role.name
    definition = (ROOT / "functions" / "redelivery.asl.json").read_text()
    assert "arn:aws:" not in definition
    assert TEMPLATE.resources["Redelivery"]["Properties"]["DefinitionSubstitutions"]["Partition"] == {
        "Ref": "AWS::Partition"
    }

"""What each role of the template may do, by the rules of IAM: a denial wins, what nothing allows is denied."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from typing import Any

from tests.aws.stack import Stack

# What the managed policies named in the template say of the services that the box plays
# (aws-managed-policy/latest/reference/<name>.html); all of them speak of every resource.
MANAGED: dict[str, tuple[str, ...]] = {
    "AWSLambdaBasicExecutionRole": ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"),
    "AWSXrayWriteOnlyAccess": ("xray:PutTraceSegments", "xray:PutTelemetryRecords", "xray:GetSampling*"),
    "AWSLambdaSQSQueueExecutionRole": ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "logs:*"),
    "AWSLambdaDynamoDBExecutionRole": (
        "dynamodb:DescribeStream",
        "dynamodb:GetRecords",
        "dynamodb:GetShardIterator",
        "dynamodb:ListStreams",
        "logs:*",
    ),
}


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """A pattern of IAM (* and ? only), case-sensitive."""
    return re.compile(translate(text.replace("[", "[[]")))


@dataclass(frozen=True)
class Statement:
    """One statement of a policy."""

    allow: bool
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: Mapping[str, Mapping[str, Sequence[str]]]

    def speaks_of(self, action: str, resource: str, context: Mapping[str, str]) -> bool:
        """Say whether the statement is about this request."""
        return (
            any(_pattern(named.lower()).match(action.lower()) for named in self.actions)
            and any(_pattern(named).match(resource) for named in self.resources)
            and all(_holds(operator, keys, context) for operator, keys in self.conditions.items())
        )


class Roles:
    """The roles of a stack by logical id, and by the logical id of the function or state machine that has one."""

    def __init__(self, statements: Mapping[str, Sequence[Statement]], holders: Mapping[str, str]) -> None:
        self._statements = statements
        self._holders = holders
        self._known: dict[tuple[str, str, str], bool] = {}

    @classmethod
    def of(cls, stack: Stack) -> Roles:
        """Read the roles of a stack."""
        by_arn = {}
        statements = {}
        for logical_id, role in stack.of_type("AWS::IAM::Role"):
            by_arn[stack.arn(logical_id)] = logical_id
            documents = [policy["PolicyDocument"] for policy in role.get("Policies", [])]
            found = [_statement(each) for document in documents for each in _many(document["Statement"])]
            found += [_managed(arn) for arn in role.get("ManagedPolicyArns", [])]
            statements[logical_id] = found
        holders = {}
        for kind, member in (("AWS::Lambda::Function", "Role"), ("AWS::StepFunctions::StateMachine", "RoleArn")):
            for logical_id, properties in stack.of_type(kind):
                holders[logical_id] = by_arn[properties[member]]
        return cls(statements, holders)

    def statements(self, role: str) -> Sequence[Statement]:
        """The statements of a role; KeyError for one that the template does not have."""
        return self._statements[self._holders.get(role, role)]

    def allows(self, role: str, action: str, resource: str, context: Mapping[str, str] | None = None) -> bool:
        """Say whether *role* may do *action* (`service:Name`) to the ARN *resource*."""
        if context:
            return self._judge(role, action, resource, context)
        asked = (role, action, resource)
        known = self._known.get(asked)
        if known is None:
            known = self._known[asked] = self._judge(role, action, resource, {})
        return known

    def _judge(self, role: str, action: str, resource: str, context: Mapping[str, str]) -> bool:
        about = [each for each in self.statements(role) if each.speaks_of(action, resource, context)]
        return bool(about) and all(each.allow for each in about)


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _statement(written: Mapping[str, Any]) -> Statement:
    unknown = written.keys() - {"Sid", "Effect", "Action", "Resource", "Condition"}
    if unknown:
        raise NotImplementedError(f"a statement with {sorted(unknown)}")
    conditions = {
        operator: {key: [str(value) for value in _many(wanted)] for key, wanted in keys.items()}
        for operator, keys in written.get("Condition", {}).items()
    }
    return Statement(
        allow=written["Effect"] == "Allow",
        actions=tuple(_many(written["Action"])),
        resources=tuple(_many(written["Resource"])),
        conditions=conditions,
    )


def _managed(arn: str) -> Statement:
    return Statement(True, MANAGED[arn.rsplit("/", 1)[1]], ("*",), {})


def _holds(operator: str, keys: Mapping[str, Iterable[str]], context: Mapping[str, str]) -> bool:
    """A condition about what the request does not say does not hold."""
    match operator:
        case "StringEquals" | "ArnEquals" | "Bool":
            return all(context.get(key) in wanted for key, wanted in keys.items())
        case "StringLike" | "ArnLike":
            return all(
                key in context and any(_pattern(each).match(context[key]) for each in wanted)
                for key, wanted in keys.items()
            )
    raise NotImplementedError(f"the condition {operator}")

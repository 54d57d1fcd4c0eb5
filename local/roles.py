"""The roles of a template with their references resolved: what functions, workflow, Firehose and jobs may do."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from local.needs import Account
from local.permissions import Grant, PolicyError, Role, grants_of
from local.template import FUNCTION, Template

ROLE = "AWS::IAM::Role"
WORKFLOW = "AWS::StepFunctions::StateMachine"
DELIVERY_STREAM = "AWS::KinesisFirehose::DeliveryStream"
JOB = "AWS::Glue::Job"
_ROLE_PROPERTY = {FUNCTION: "Role", WORKFLOW: "RoleArn", JOB: "Role"}
_LOGS = ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents")
# What these policies of AWS say; the translator names them in the roles that it makes.
_MANAGED = {
    "service-role/AWSLambdaBasicExecutionRole": _LOGS,
    "service-role/AWSLambdaSQSQueueExecutionRole": (
        "sqs:ReceiveMessage",
        "sqs:DeleteMessage",
        "sqs:GetQueueAttributes",
        *_LOGS,
    ),
    "service-role/AWSLambdaDynamoDBExecutionRole": (
        "dynamodb:DescribeStream",
        "dynamodb:GetRecords",
        "dynamodb:GetShardIterator",
        "dynamodb:ListStreams",
        *_LOGS,
    ),
    "AWSXrayWriteOnlyAccess": (
        "xray:PutTraceSegments",
        "xray:PutTelemetryRecords",
        "xray:GetSamplingRules",
        "xray:GetSamplingTargets",
        "xray:GetSamplingStatisticSummaries",
    ),
}
_NAMED_BY = {
    FUNCTION: "FunctionName",
    WORKFLOW: "StateMachineName",
    DELIVERY_STREAM: "DeliveryStreamName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::DynamoDB::Table": "TableName",
    "AWS::SQS::Queue": "QueueName",
    "AWS::S3::Bucket": "BucketName",
    JOB: "Name",
}
_ARN_OF = {
    FUNCTION: ("lambda", "function:{}"),
    WORKFLOW: ("states", "stateMachine:{}"),
    DELIVERY_STREAM: ("firehose", "deliverystream/{}"),
    "AWS::Logs::LogGroup": ("logs", "log-group:{}:*"),
    "AWS::DynamoDB::Table": ("dynamodb", "table/{}"),
    "AWS::SQS::Queue": ("sqs", "{}"),
    "AWS::Events::Rule": ("events", "rule/{}"),
}


class Resolves(Protocol):
    """A template and what resolves its references."""

    @property
    def template(self) -> Template:
        """The translated template."""

    def value(self, given: Any) -> Any:
        """The value of a property, with every reference in it replaced."""


@dataclass(frozen=True)
class Resolver:
    """Resolves the references of a translated template.

    `physical` names resources that exist already (logical id to `Ref`'s value); the others get a name of their own.
    """

    template: Template
    account: Account
    stack: str = "tagcast"
    parameters: Mapping[str, str] = field(default_factory=dict)
    physical: Mapping[str, str] = field(default_factory=dict)

    def value(self, given: Any) -> Any:
        """The value of a property, with every reference in it replaced."""
        if isinstance(given, list):
            return [self.value(each) for each in given]
        if not isinstance(given, dict):
            return given
        if len(given) == 1:
            ((kind, argument),) = given.items()
            match kind:
                case "Ref":
                    return self.reference(argument)
                case "Fn::GetAtt":
                    return self._attribute(*(argument if isinstance(argument, list) else argument.split(".", 1)))
                case "Fn::Sub":
                    return self._substituted(argument)
                case "Fn::Join":
                    return argument[0].join(str(each) for each in self.value(argument[1]))
        return {name: self.value(each) for name, each in given.items()}

    def reference(self, name: str) -> str:
        """What `Ref` of a parameter, a pseudo parameter or a resource says."""
        pseudo = {
            "AWS::Partition": self.account.partition,
            "AWS::Region": self.account.region,
            "AWS::AccountId": self.account.number,
            "AWS::StackName": self.stack,
            "AWS::URLSuffix": "amazonaws.com",
        }
        if name in pseudo:
            return pseudo[name]
        if name in self.template.parameters:
            return str(self.parameters.get(name, self.template.parameters[name].get("Default", "")))
        if name in self.physical:
            return self.physical[name]
        return self._attribute(name, "Arn") if self._kind(name) == WORKFLOW else self._name(name)

    def _attribute(self, name: str, attribute: str) -> str:
        kind = self._kind(name)
        if attribute in ("QueueName", "Name"):
            return self._name(name)
        if attribute != "Arn":
            raise PolicyError(f"the attribute {attribute} of {name} is not known here")
        if kind == "AWS::S3::Bucket":
            return f"arn:{self.account.partition}:s3:::{self._name(name)}"
        if kind == ROLE:
            return f"arn:{self.account.partition}:iam::{self.account.number}:role/{self._name(name)}"
        service, pattern = _ARN_OF[kind]
        return self.account.arn(service, pattern.format(self._name(name)))

    def _kind(self, name: str) -> str:
        return str(self.template.resources[name]["Type"])

    def _name(self, name: str) -> str:
        if name in self.physical:
            return (
                re.split(r"[/:]", self.physical[name])[-1]
                if self._kind(name) != "AWS::Logs::LogGroup"
                else (self.physical[name])
            )
        properties = self.template.resources[name].get("Properties", {})
        declared = properties.get(_NAMED_BY.get(self._kind(name), ""))
        return str(self.value(declared)) if declared else f"{self.stack}-{name}"

    def _substituted(self, argument: Any) -> str:
        text, own = (argument, {}) if isinstance(argument, str) else argument

        def replaced(found: re.Match[str]) -> str:
            name = found[1]
            if name.startswith("!"):
                return f"${{{name[1:]}}}"
            if name in own:
                return str(self.value(own[name]))
            logical, _, attribute = name.partition(".")
            return self._attribute(logical, attribute) if attribute else self.reference(name)

        return re.sub(r"\$\{([^}]+)\}", replaced, text)


def roles_of(resolver: Resolves) -> dict[str, Role]:
    """Every role of the template by its logical id, with all that its policies say."""
    return {lid: Role(lid, tuple(_grants(resolver, role))) for lid, role in resolver.template.of_type(ROLE)}


def _grants(resolver: Resolves, role: Mapping[str, Any]) -> list[Grant]:
    found: list[Grant] = []
    for policy in role.get("Policies", []):
        found += grants_of(resolver.value(policy["PolicyDocument"]))
    for arn in role.get("ManagedPolicyArns", []):
        name = str(resolver.value(arn)).partition(":policy/")[2]
        if name not in _MANAGED:
            raise PolicyError(f"what the policy {name} says is not known here")
        found += [Grant(action, "*") for action in _MANAGED[name]]
    return found


def role_of(template: Template, logical_id: str) -> str:
    """The logical id of the role of a function, a workflow, a delivery stream or a job."""
    resource = template.resources[logical_id]
    properties = resource["Properties"]
    if resource["Type"] == DELIVERY_STREAM:
        given = properties["ExtendedS3DestinationConfiguration"]["RoleARN"]
    else:
        given = properties[_ROLE_PROPERTY[resource["Type"]]]
    return str(given["Fn::GetAtt"][0])

"""Resolves CloudFormation's intrinsic functions (such as `Ref` and `Fn::GetAtt`) in the template."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from local.rules.needs import Account
from local.template.translated import Template

ARN_OF = {
    "AWS::DynamoDB::Table": "dynamodb:{region}:{number}:table/{name}",
    "AWS::Events::Rule": "events:{region}:{number}:rule/{name}",
    "AWS::IAM::Role": "iam::{number}:role/{name}",
    "AWS::KMS::Key": "kms:{region}:{number}:key/{name}",
    "AWS::KinesisFirehose::DeliveryStream": "firehose:{region}:{number}:deliverystream/{name}",
    "AWS::Lambda::Function": "lambda:{region}:{number}:function:{name}",
    "AWS::Lambda::LayerVersion": "lambda:{region}:{number}:layer:{name}:1",
    "AWS::Logs::LogGroup": "logs:{region}:{number}:log-group:{name}:*",
    "AWS::S3::Bucket": "s3:::{name}",
    "AWS::SQS::Queue": "sqs:{region}:{number}:{name}",
    "AWS::SecretsManager::Secret": "secretsmanager:{region}:{number}:secret:{name}-a1b2c3",
    "AWS::StepFunctions::StateMachine": "states:{region}:{number}:stateMachine:{name}",
}
_REF_IS_ARN = ("AWS::StepFunctions::StateMachine", "AWS::SecretsManager::Secret", "AWS::Lambda::LayerVersion")
_NAME_HAS_SLASHES = ("AWS::Logs::LogGroup",)
_LISTS = ("CommaDelimitedList", "List<Number>")
_SUBSTITUTE = re.compile(r"\$\{([^!}][^}]*)\}")


class IntrinsicError(ValueError):
    """The template has an intrinsic function, or an attribute, that is not supported here."""


@dataclass(frozen=True)
class Resolver:
    """Resolves the references of a translated template.

    `parameters` overrides the defaults of the template's parameters. `physical` has the `Ref` values of existing
    resources, by logical id. Any other resource gets its declared name, or a name made of the stack's name and the
    logical id.
    """

    template: Template
    account: Account
    stack: str = "tagcast"
    parameters: Mapping[str, str] = field(default_factory=dict)
    physical: Mapping[str, str] = field(default_factory=dict)

    def of_type(self, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the logical id and the resolved properties of each resource of type *kind*, if its condition holds."""
        for logical_id, properties in self.template.of_type(kind):
            condition = self.template.resources[logical_id].get("Condition")
            if condition is None or self.holds(condition):
                yield logical_id, self.value(properties)

    def value(self, given: Any) -> Any:
        """Return a part of the template with all intrinsic functions resolved. `AWS::NoValue` removes a value."""
        if isinstance(given, list):
            return [part for part in map(self.value, given) if part is not None]
        if not isinstance(given, dict):
            return given
        if len(given) == 1:
            ((key, argument),) = given.items()
            if key == "Ref":
                return self.reference(argument)
            if key.startswith("Fn::"):
                return self._function(key, argument)
        resolved = {key: self.value(part) for key, part in given.items()}
        return {key: part for key, part in resolved.items() if part is not None}

    def reference(self, name: str) -> Any:
        """Return the value of `Ref` for *name*: a parameter, a pseudo parameter or a resource."""
        if name in self._settings:
            return self._settings[name]
        if name in self.physical:
            return self.physical[name]
        kind = self._kind(name)
        if kind == "AWS::SQS::Queue":
            return f"https://sqs.{self.account.region}.amazonaws.com/{self.account.number}/{self.name_of(name)}"
        return self.arn(name) if kind in _REF_IS_ARN else self.name_of(name)

    def attribute(self, logical_id: str, name: str) -> str:
        """Return the value of `Fn::GetAtt` for a resource's attribute. Raises IntrinsicError."""
        match name:
            case "Arn":
                return self.arn(logical_id)
            case "StreamArn":
                return f"{self.arn(logical_id)}/stream/2026-01-01T00:00:00.000"
            case "QueueName" | "Name":
                return self.name_of(logical_id)
        raise IntrinsicError(f"the attribute {name} of {logical_id} is not known here")

    def arn(self, logical_id: str) -> str:
        """Return the ARN of a resource. Raises IntrinsicError."""
        kind, account = self._kind(logical_id), self.account
        if kind not in ARN_OF:
            raise IntrinsicError(f"the ARN of {logical_id} is not known here")
        named = ARN_OF[kind].format(region=account.region, number=account.number, name=self.name_of(logical_id))
        return f"arn:{account.partition}:{named}"

    def name_of(self, logical_id: str) -> str:
        """Return the physical name of a resource. For a resource that does not exist yet, return its future name."""
        kind = self._kind(logical_id)
        if logical_id in self.physical:
            given = self.physical[logical_id]
            return given if kind in _NAME_HAS_SLASHES else re.split(r"[/:]", given)[-1]
        properties = self.template.resources[logical_id].get("Properties", {})
        declared = properties.get(f"{kind.rpartition('::')[2]}Name", properties.get("Name"))
        if declared is not None:
            return str(self.value(declared))
        made_up = f"{self.stack}-{logical_id}"
        if kind == "AWS::S3::Bucket":
            return made_up.lower()
        return f"{made_up}.fifo" if properties.get("FifoQueue") else made_up

    def holds(self, condition: Any) -> bool:
        """Return whether *condition*, the name of a condition in the template or an expression, is true."""
        if isinstance(condition, str):
            return self.holds(self.template.conditions[condition])
        ((key, argument),) = condition.items()
        match key:
            case "Fn::Equals":
                # The values of parameters are texts, and so are CloudFormation's numbers.
                return str(self.value(argument[0])) == str(self.value(argument[1]))
            case "Fn::Not":
                return not self.holds(argument[0])
            case "Fn::And":
                return all(map(self.holds, argument))
            case "Fn::Or":
                return any(map(self.holds, argument))
            case "Condition":
                return self.holds(argument)
        raise IntrinsicError(f"the condition {key} is not known here")

    @cached_property
    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "AWS::Partition": self.account.partition,
            "AWS::Region": self.account.region,
            "AWS::AccountId": self.account.number,
            "AWS::StackName": self.stack,
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::NoValue": None,
        }
        for name, described in self.template.parameters.items():
            given = str(self.parameters.get(name, described.get("Default", "")))
            settings[name] = given.split(",") if described["Type"] in _LISTS else given
        return settings

    def _kind(self, logical_id: str) -> str:
        return str(self.template.resources[logical_id]["Type"])

    def _function(self, key: str, argument: Any) -> Any:
        match key:
            case "Fn::GetAtt":
                logical_id, name = argument.split(".", 1) if isinstance(argument, str) else argument
                return self.attribute(logical_id, name)
            case "Fn::Sub":
                text, own = (argument, {}) if isinstance(argument, str) else argument
                return _SUBSTITUTE.sub(lambda found: self._substitute(found[1], own), text).replace("${!", "${")
            case "Fn::Join":
                return str(argument[0]).join(map(str, self.value(argument[1])))
            case "Fn::If":
                return self.value(argument[1] if self.holds(argument[0]) else argument[2])
            case "Fn::Select":
                return self.value(argument[1])[int(argument[0])]
            case "Fn::Split":
                return str(self.value(argument[1])).split(argument[0])
        raise IntrinsicError(f"the intrinsic {key} is not known here")

    def _substitute(self, name: str, own: Mapping[str, Any]) -> str:
        if name in own:
            return str(self.value(own[name]))
        if "." in name:
            return self.attribute(*name.split(".", 1))
        return str(self.reference(name))

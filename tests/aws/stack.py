"""The translated template with its intrinsics resolved: names, ARNs and properties as CloudFormation gives them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from local.template import Template, read_template

TEMPLATE = Path(__file__).parents[2] / "template.yaml"
STACK, REGION, ACCOUNT = "tagcast", "us-east-1", "123456789012"
_NAMED = {
    "AWS::DynamoDB::Table": "TableName",
    "AWS::SQS::Queue": "QueueName",
    "AWS::S3::Bucket": "BucketName",
    "AWS::Lambda::Function": "FunctionName",
    "AWS::StepFunctions::StateMachine": "StateMachineName",
    "AWS::KinesisFirehose::DeliveryStream": "DeliveryStreamName",
    "AWS::SecretsManager::Secret": "Name",
    "AWS::IAM::Role": "RoleName",
}
_ARNS = {
    "AWS::DynamoDB::Table": "arn:aws:dynamodb:{region}:{account}:table/{name}",
    "AWS::SQS::Queue": "arn:aws:sqs:{region}:{account}:{name}",
    "AWS::S3::Bucket": "arn:aws:s3:::{name}",
    "AWS::Lambda::Function": "arn:aws:lambda:{region}:{account}:function:{name}",
    "AWS::StepFunctions::StateMachine": "arn:aws:states:{region}:{account}:stateMachine:{name}",
    "AWS::KinesisFirehose::DeliveryStream": "arn:aws:firehose:{region}:{account}:deliverystream/{name}",
    "AWS::SecretsManager::Secret": "arn:aws:secretsmanager:{region}:{account}:secret:{name}-a1b2c3",
    "AWS::IAM::Role": "arn:aws:iam::{account}:role/{name}",
    "AWS::KMS::Key": "arn:aws:kms:{region}:{account}:key/{name}",
    "AWS::Events::Rule": "arn:aws:events:{region}:{account}:rule/{name}",
    "AWS::Logs::LogGroup": "arn:aws:logs:{region}:{account}:log-group:{name}:*",
}
_REF_IS_ARN = ("AWS::StepFunctions::StateMachine", "AWS::SecretsManager::Secret", "AWS::Lambda::LayerVersion")
_SUBSTITUTE = re.compile(r"\$\{([^!}][^}]*)\}")


class Stack:
    """The template as deployed; *parameters* overrides the defaults of its parameters."""

    def __init__(self, template: Template, parameters: Mapping[str, str] | None = None, name: str = STACK) -> None:
        self.template = template
        self.name = name
        defaults = {key: str(spec.get("Default", "")) for key, spec in template.parameters.items()}
        self._values: dict[str, Any] = {
            "AWS::Partition": "aws",
            "AWS::Region": REGION,
            "AWS::AccountId": ACCOUNT,
            "AWS::StackName": name,
            "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{name}/0",
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::NoValue": None,
            **defaults,
            **(parameters or {}),
        }
        for key, spec in template.parameters.items():
            if spec["Type"] in ("CommaDelimitedList", "List<Number>"):
                self._values[key] = str(self._values[key]).split(",")

    def of_type(self, kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The resources of a type: logical id, resolved properties."""
        for logical_id, properties in self.template.of_type(kind):
            yield logical_id, self.value(properties)

    def physical(self, logical_id: str) -> str:
        """The name of a resource: the one it declares, or one made of the stack's and its own."""
        resource = self.template.resources[logical_id]
        declared = resource.get("Properties", {}).get(_NAMED.get(resource["Type"], ""))
        if declared is not None:
            return str(self.value(declared))
        if resource["Type"] == "AWS::S3::Bucket":
            return f"{self.name}-{logical_id}".lower()
        fifo = resource["Type"] == "AWS::SQS::Queue" and resource.get("Properties", {}).get("FifoQueue")
        return f"{self.name}-{logical_id}" + (".fifo" if fifo else "")

    def ref(self, name: str) -> Any:
        """What `Ref` answers for a parameter, a pseudo parameter or a resource."""
        if name in self._values:
            return self._values[name]
        kind = self.template.resources[name]["Type"]
        if kind == "AWS::SQS::Queue":
            return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{self.physical(name)}"
        return self.arn(name) if kind in _REF_IS_ARN else self.physical(name)

    def arn(self, logical_id: str) -> str:
        """The ARN of a resource."""
        kind = self.template.resources[logical_id]["Type"]
        service = kind.split("::")[1].lower()
        pattern = _ARNS.get(kind, f"arn:aws:{service}:{{region}}:{{account}}:{{name}}")
        return pattern.format(region=REGION, account=ACCOUNT, name=self.physical(logical_id))

    def attribute(self, logical_id: str, name: str) -> str:
        """What `Fn::GetAtt` answers."""
        if name == "Arn":
            return self.arn(logical_id)
        if name == "StreamArn":
            return f"{self.arn(logical_id)}/stream/2026-01-01T00:00:00.000"
        return f"{self.physical(logical_id)}.{name}"

    def value(self, node: Any) -> Any:
        """A part of the template with all intrinsics resolved; what resolves to AWS::NoValue is left out."""
        if isinstance(node, list):
            return [part for part in map(self.value, node) if part is not None]
        if not isinstance(node, dict):
            return node
        if len(node) == 1:
            ((key, argument),) = node.items()
            if key == "Ref":
                return self.ref(argument)
            if key.startswith("Fn::"):
                return self._function(key, argument)
        resolved = {key: self.value(part) for key, part in node.items()}
        return {key: part for key, part in resolved.items() if part is not None}

    def holds(self, condition: Any) -> bool:
        """Whether a condition (by name, or as written) holds."""
        if isinstance(condition, str):
            return self.holds(self.template.conditions[condition])
        ((key, argument),) = condition.items()
        match key:
            case "Fn::Equals":
                return bool(self.value(argument[0]) == self.value(argument[1]))
            case "Fn::Not":
                return not self.holds(argument[0])
            case "Fn::And":
                return all(map(self.holds, argument))
            case "Fn::Or":
                return any(map(self.holds, argument))
            case "Condition":
                return self.holds(argument)
        raise NotImplementedError(f"the condition {key}")

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
        raise NotImplementedError(f"the intrinsic {key}")

    def _substitute(self, name: str, own: Mapping[str, Any]) -> str:
        if name in own:
            return str(self.value(own[name]))
        if "." in name:
            return self.attribute(*name.split(".", 1))
        return str(self.ref(name))


@cache
def translated() -> Template:
    """The project's template after the SAM transform; translated once per process, and not to be changed."""
    return read_template(TEMPLATE)

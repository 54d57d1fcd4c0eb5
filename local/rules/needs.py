"""Lists the permissions that an AWS call needs. Each is an action on a resource."""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from local.rules.permissions import Need

_TRANSACTED = {
    "Put": "PutItem",
    "Update": "UpdateItem",
    "Delete": "DeleteItem",
    "ConditionCheck": "ConditionCheckItem",
    "Get": "GetItem",
}
_QUEUE_BATCHES = {
    "SendMessageBatch": "SendMessage",
    "DeleteMessageBatch": "DeleteMessage",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
}
_BY_ARN = {"stepfunctions": ("states", "stateMachineArn"), "kms": ("kms", "KeyId")}
"""Maps a service to the prefix of its actions, and to the parameter with the resource's ARN."""
_OF_BUCKETS = {
    "ListObjects": "ListBucket",
    "ListObjectsV2": "ListBucket",
    "HeadBucket": "ListBucket",
    "GetBucketLocation": "GetBucketLocation",
    "ListMultipartUploads": "ListBucketMultipartUploads",
}
_OF_OBJECTS = {
    "GetObject": "GetObject",
    "HeadObject": "GetObject",
    "PutObject": "PutObject",
    "CreateMultipartUpload": "PutObject",
    "UploadPart": "PutObject",
    "CompleteMultipartUpload": "PutObject",
    "AbortMultipartUpload": "AbortMultipartUpload",
    "ListParts": "ListMultipartUploadParts",
    "DeleteObject": "DeleteObject",
}


@dataclass(frozen=True)
class Account:
    """The AWS account and the region to which calls go."""

    number: str
    region: str
    partition: str = "aws"

    def arn(self, service: str, resource: str) -> str:
        """Return the ARN of a resource of *service* in this account and region.

        >>> Account("1", "eu-west-1").arn("sqs", "q")
        'arn:aws:sqs:eu-west-1:1:q'
        """
        return f"arn:{self.partition}:{service}:{self.region}:{self.number}:{resource}"


def needs_of(account: Account, service: str, operation: str, parameters: Mapping[str, Any]) -> list[Need]:
    """Return the permissions that a call needs, without repetitions. *service* and *operation* are boto3's names.

    A batch needs the permissions of its items. A transaction needs the permissions of its requests.

    >>> needs_of(Account("1", "r"), "sqs", "SendMessageBatch", {"QueueUrl": "http://x/1/q"})
    [Need(action='sqs:SendMessage', resource='arn:aws:sqs:r:1:q')]
    >>> needs_of(Account("1", "r"), "sqs", "SendMessage", {"QueueUrl": "https://sqs.r.amazonaws.com/2/q"})[0].resource
    'arn:aws:sqs:r:2:q'
    """
    match service:
        case "dynamodb":
            found = _of_tables(account, operation, parameters)
        case "dynamodbstreams":
            found = _of_streams(operation, parameters)
        case "sqs":
            found = _of_queues(account, operation, parameters)
        case "s3":
            found = _of_s3(account.partition, operation, parameters)
        case "stepfunctions" | "kms":
            prefix, named = _BY_ARN[service]
            found = iter([Need(f"{prefix}:{operation}", str(parameters.get(named, "*")))])
        case "firehose":
            stream = f"deliverystream/{parameters.get('DeliveryStreamName', '')}"
            found = iter([Need(f"firehose:{operation}", account.arn("firehose", stream))])
        case "events":
            found = iter([Need(f"events:{operation}", account.arn("events", "event-bus/default"))])
        case "lambda":
            action = "InvokeFunction" if operation == "Invoke" else operation
            found = iter([Need(f"lambda:{action}", _function(account, str(parameters.get("FunctionName", ""))))])
        case "secretsmanager":
            found = iter([Need(f"secretsmanager:{operation}", _secret(account, str(parameters.get("SecretId", ""))))])
        case _:
            found = iter([Need(f"{service}:{operation}", "*")])
    return list(dict.fromkeys(found))


def _of_tables(account: Account, operation: str, parameters: Mapping[str, Any]) -> Iterator[Need]:
    def table(name: str) -> str:
        return name if name.startswith("arn:") else account.arn("dynamodb", f"table/{name}")

    match operation:
        case "TransactWriteItems" | "TransactGetItems":
            for item in parameters.get("TransactItems", []):
                for kind, request in item.items():
                    yield Need(f"dynamodb:{_TRANSACTED[kind]}", table(request["TableName"]))
        case "BatchGetItem" | "BatchWriteItem":
            for name in parameters.get("RequestItems", {}):
                yield Need(f"dynamodb:{operation}", table(name))
        case "BatchExecuteStatement":
            for statement in parameters.get("Statements", []):
                verb, _, rest = str(statement.get("Statement", "")).partition(" ")
                yield Need(f"dynamodb:PartiQL{verb.capitalize()}", table(rest.partition('"')[2].partition('"')[0]))
        case _:
            index = parameters.get("IndexName")
            whole = table(str(parameters.get("TableName", "*")))
            yield Need(f"dynamodb:{operation}", f"{whole}/index/{index}" if index else whole)


def _of_streams(operation: str, parameters: Mapping[str, Any]) -> Iterator[Need]:
    iterator = parameters.get("ShardIterator")
    yield Need(f"dynamodb:{operation}", _stream_of(iterator) if iterator else str(parameters.get("StreamArn", "*")))


def _stream_of(iterator: str) -> str:
    """Return the ARN of the stream in an engine's shard iterator (JSON in Base64); `*` if it has another form."""
    try:
        return str(json.loads(base64.urlsafe_b64decode(iterator))["arn"])
    except (ValueError, KeyError, TypeError):
        return "*"


def _of_queues(account: Account, operation: str, parameters: Mapping[str, Any]) -> Iterator[Need]:
    action = _QUEUE_BATCHES.get(operation, operation)
    *before, name = str(parameters.get("QueueName") or parameters.get("QueueUrl", "*")).rstrip("/").split("/")
    owner = replace(account, number=before[-1]) if before else account
    yield Need(f"sqs:{action}", owner.arn("sqs", name))


def _of_s3(partition: str, operation: str, parameters: Mapping[str, Any]) -> Iterator[Need]:
    bucket = f"arn:{partition}:s3:::{parameters.get('Bucket', '')}"
    if operation in _OF_BUCKETS:
        yield Need(f"s3:{_OF_BUCKETS[operation]}", bucket)
    elif operation == "DeleteObjects":
        for each in parameters["Delete"]["Objects"]:
            yield Need("s3:DeleteObject", f"{bucket}/{each['Key']}")
    elif operation in ("CopyObject", "UploadPartCopy"):
        source = str(parameters["CopySource"]).lstrip("/").partition("?")[0]
        yield Need("s3:GetObject", f"arn:{partition}:s3:::{source}")
        yield Need("s3:PutObject", f"{bucket}/{parameters['Key']}")
    else:
        yield Need(f"s3:{_OF_OBJECTS.get(operation, operation)}", f"{bucket}/{parameters.get('Key', '')}")


def _function(account: Account, name: str) -> str:
    if name.startswith("arn:"):
        return ":".join(name.split(":")[:7])
    return account.arn("lambda", f"function:{name.split(':')[0]}")


def _secret(account: Account, name: str) -> str:
    # AWS appends six random characters to the name, which patterns in policies cover.
    return name if name.startswith("arn:") else account.arn("secretsmanager", f"secret:{name}-a1b2c3")

"""The template's resources made in somebody else's AWS, the functions before them, the event sources beside them."""

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from local.front.http_event import HttpRequest, event_of, response_of
from local.front.routes import Routes
from local.rules.needs import Account
from local.template.intrinsics import Resolver
from local.template.parameters import LOCAL
from tests.aws.stack import ACCOUNT, REGION, translated
from tests.second_opinion.implementations import Implementation
from tests.second_opinion.lambdas import ShippedFunction
from tests.second_opinion.sources import QueueSource, ScannedChanges, StreamedChanges, StreamSource

TIME_SCALE = "20"
KEPT_OF_TABLES = ("AttributeDefinitions", "KeySchema", "BillingMode", "GlobalSecondaryIndexes", "StreamSpecification")
KEPT_OF_STREAMS = ("BucketARN", "RoleARN", "Prefix", "ErrorOutputPrefix", "CompressionFormat", "FileExtension")
Answer = tuple[int, Any]


class Deployment:
    """One stack, whose names all begin with *stack*; nothing happens in it unless `step` or `until` let it."""

    def __init__(self, implementation: Implementation, stack: str) -> None:
        self.aws = implementation
        self.stack = stack
        parameters = {**LOCAL, "TimeScale": TIME_SCALE, "ShortWaitSeconds": "10"}
        account = Account(ACCOUNT, REGION)
        resolver = Resolver(translated(), account, stack, parameters)
        self.resolver = Resolver(translated(), account, stack, parameters, self._made(resolver))
        folders = translated().folders
        self.functions = {
            logical_id: ShippedFunction(folders[logical_id].name, properties, implementation.client)
            for logical_id, properties in self.resolver.of_type("AWS::Lambda::Function")
        }
        names = {logical_id: self.resolver.name_of(logical_id) for logical_id in self.functions}
        implementation.lambdas.functions.update({names[each]: made for each, made in self.functions.items()})
        self._routes = Routes(translated().routes())
        self._sources = list(self._made_sources())

    # What there is.

    def _made(self, stack: Resolver) -> dict[str, str]:
        """Make what the functions use; return what `Ref` says of those whose names AWS chooses."""
        physical = {}
        client = self.aws.plain_client
        for logical_id, table in stack.of_type("AWS::DynamoDB::Table"):
            kept: dict[str, Any] = {name: table[name] for name in KEPT_OF_TABLES if name in table}
            if "StreamSpecification" in kept:
                kept["StreamSpecification"] = {"StreamEnabled": True, **kept["StreamSpecification"]}
            client("dynamodb").create_table(TableName=stack.name_of(logical_id), **kept)
        for logical_id, _ in stack.of_type("AWS::KMS::Key"):
            physical[logical_id] = client("kms").create_key()["KeyMetadata"]["KeyId"]
        for _, secret in stack.of_type("AWS::SecretsManager::Secret"):
            client("secretsmanager").create_secret(Name=secret["Name"], SecretString="s" * 64)
        for logical_id, queue in stack.of_type("AWS::SQS::Queue"):
            physical[logical_id] = self._make_queue(stack.name_of(logical_id), queue)
        for logical_id, _ in stack.of_type("AWS::S3::Bucket"):
            client("s3").create_bucket(Bucket=stack.name_of(logical_id))
        for _, stream in stack.of_type("AWS::KinesisFirehose::DeliveryStream"):
            to = stream["ExtendedS3DestinationConfiguration"]
            client("firehose").create_delivery_stream(
                DeliveryStreamName=stream["DeliveryStreamName"],
                ExtendedS3DestinationConfiguration={name: to[name] for name in KEPT_OF_STREAMS},
            )
        for logical_id, machine in stack.of_type("AWS::StepFunctions::StateMachine"):
            client("stepfunctions").create_state_machine(
                name=stack.name_of(logical_id),
                definition=_definition(translated().folders[logical_id], machine["DefinitionSubstitutions"]),
                roleArn=machine["RoleArn"],
            )
        return physical

    def _make_queue(self, name: str, properties: Mapping[str, Any]) -> str:
        plain = {"FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit"}
        plain |= {"VisibilityTimeout", "MessageRetentionPeriod"}
        attributes = {key: _text(value) for key, value in properties.items() if key in plain}
        return str(self.aws.plain_client("sqs").create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])

    def _made_sources(self) -> Iterable[QueueSource | StreamSource]:
        for spec in translated().sources():
            properties = self.resolver.value(dict(spec.properties))
            invoke = self.functions[spec.function]
            if not spec.of_stream:
                url = self.resolver.reference("DeliveryQueue")
                yield QueueSource(self.aws.plain_client("sqs"), url, properties["EventSourceArn"], invoke)
                continue
            table = str(properties["EventSourceArn"]).partition("table/")[2].partition("/")[0]
            kind = StreamedChanges if self.aws.has_streams else ScannedChanges
            yield StreamSource(kind(self.aws.plain_client, table), invoke, spec.filters, properties["BatchSize"])

    # What one does with it.

    def ask(self, method: str, target: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Ask the API; return status and answer."""
        path, _, query = target.partition("?")
        found = self._routes.find(method, path)
        assert found is not None, target
        content = b"" if body is None else json.dumps(body).encode()
        sent = (("content-type", "application/json"), *(headers or {}).items())
        request = HttpRequest(method, path, query, sent, content)
        route, parameters = found
        event = event_of(request, route.key, parameters, parse_qsl(query))
        answer = response_of(json.dumps(self.functions[route.function](event)).encode())
        return answer.status, json.loads(answer.body) if answer.body else None

    def do(self, method: str, target: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        """Ask the API for what it has to do; return the answer."""
        status, answer = self.ask(method, target, body, headers)
        assert status < 300, (method, target, status, answer)
        return answer

    def step(self) -> None:
        """Let every event source hand over once what it has."""
        for source in self._sources:
            source.step()

    def until(self, what: Callable[[], Any], within_s: float = 30) -> Any:
        """Let the event sources work until *what* is true of something; return that."""
        end = time.monotonic() + within_s
        while not (found := what()):
            assert time.monotonic() < end, "it did not happen in time"
            self.step()
            time.sleep(0.02)
        return found

    def ends_as(self, topic: str, message_id: str, **states: str) -> dict[str, Any]:
        """Wait until the deliveries of a message are in these states by subscription; return the message."""

        def reached() -> Any:
            message = self.do("GET", f"/topics/{topic}/messages/{message_id}")
            shown = {name: delivery["state"] for name, delivery in message["subscribers"].items()}
            return message if shown == states else None

        found: dict[str, Any] = self.until(reached)
        return found

    def close(self) -> None:
        """End what would go on by itself."""
        client = self.aws.plain_client("stepfunctions")
        for machine, _ in self.resolver.of_type("AWS::StepFunctions::StateMachine"):
            arn = self.resolver.reference(machine)
            for execution in client.list_executions(stateMachineArn=arn, statusFilter="RUNNING")["executions"]:
                client.stop_execution(executionArn=execution["executionArn"])


def _definition(file: Path, substitutions: Mapping[str, str]) -> str:
    values = {"Partition": "aws", **substitutions}
    return re.sub(r"\$\{(\w+)\}", lambda found: values[found[1]], file.read_text())


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

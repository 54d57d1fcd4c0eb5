"""A deployment in which one function has a handler of the test's: what it is given when, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.aws.box import ADMINISTRATOR
from tests.aws.deployment import Deployment
from tests.aws.environments import Environment
from tests.aws.lambdas import Ended
from tests.aws.timeline import EPOCH, Timeline
from tests.aws.unsaid import USUAL, Unsaid


class Stage:
    """The deployment; all other functions answer at once that all is well."""

    def __init__(
        self,
        logical_id: str,
        handler: Callable[[Stage, Any], Any],
        *parameters: tuple[str, str],
        unsaid: Unsaid = USUAL,
    ) -> None:
        self.timeline = Timeline()
        self.deployment = Deployment(self.timeline, None, 1, shards=1, parameters=parameters, unsaid=unsaid)
        self.functions = self.deployment.functions
        self.told: list[tuple[int, Any]] = []
        self.ended: list[Ended] = []
        self.context: Any = None
        """Of the latest invocation."""
        for function in self.functions.by_id.values():
            function.handler = lambda event, context: {"batchItemFailures": []}
        self.function = self.functions.by_id[logical_id]

        def handle(event: Any, context: Any) -> Any:
            self.context = context
            return handler(self, event)

        self.function.handler = handle
        self.deployment.begin()
        self.dynamodb = self.deployment.box.client("dynamodb", ADMINISTRATOR)
        self.sqs = self.deployment.box.client("sqs", ADMINISTRATOR)
        self.states = self.deployment.box.client("stepfunctions", ADMINISTRATOR)

    @property
    def environment(self) -> Environment:
        """The one that moves now."""
        strand = self.timeline.current
        assert strand is not None
        assert isinstance(strand.host, Environment)
        return strand.host

    def tell(self, what: Any) -> None:
        self.told.append((self.timeline.now - EPOCH, what))

    def spend_and_tell(self, ms: float, what: str) -> None:
        self.timeline.spend(ms)
        self.tell(what)

    def invoke_at(self, ms: int, event: Any = None) -> None:
        self.timeline.at(EPOCH + ms, lambda: self.functions.start(self.function, event or {}, self.ended.append))

    def play(self, ms: int = 10_000_000) -> list[Any]:
        """Play until so many milliseconds are over; return what was told until then."""
        self.timeline.play_until(EPOCH + ms)
        return [what for _, what in self.told]

    def put(self, *names: str) -> None:
        """Put a row of each partition into the table of messages."""
        for name in names:
            self.dynamodb.put_item(
                TableName=self.deployment.stack.name_of("MessagesTable"), Item={"pk": {"S": name}, "sk": {"S": "MSG"}}
            )

    def send(self, group: str, *bodies: str) -> None:
        """Send messages to the queue of deliveries."""
        for body in bodies:
            self.sqs.send_message(
                QueueUrl=self.deployment.stack.reference("DeliveryQueue"),
                MessageBody=json.dumps({"message_id": body}),
                MessageGroupId=group,
                MessageDeduplicationId=body,
            )

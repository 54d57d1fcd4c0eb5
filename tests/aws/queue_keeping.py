"""The queues of an account: made, found, asked about and removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.aws.box import ACCOUNT, REGION, Box, Call, Service
from tests.aws.faults import ApiError
from tests.aws.queues import Queue

PAGE = 1_000
_SAID = {"true": True, "false": False}


class QueueKeeping(Service):
    """What of SQS is about queues, not about what they hold."""

    def __init__(self, box: Box) -> None:
        super().__init__(box)
        self.queues: dict[str, Queue] = {}
        """All there are, by URL."""
        self.told: list[Callable[[Queue], None]] = []
        """Are told of each queue that a caller makes."""
        self.removed: list[Callable[[Queue], None]] = []
        """Are told of each queue that a caller removes."""

    def create(self, name: str, properties: Mapping[str, Any]) -> Queue:
        """Make a queue as CloudFormation would from the *properties* of AWS::SQS::Queue."""
        if bool(properties.get("FifoQueue")) != name.endswith(".fifo"):
            raise ValueError("the name of a FIFO queue, and of no other, ends with .fifo")
        url = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}"
        arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"
        queue = self.queues[url] = Queue(name, url, arn, self.box.timeline, properties)
        return queue

    def queue(self, url: str) -> Queue:
        """The queue of a URL, or SQS's refusal."""
        if url not in self.queues:
            raise ApiError("QueueDoesNotExist", "The specified queue does not exist.")
        return self.queues[url]

    def create_queue(self, call: Call) -> dict[str, Any]:
        """CreateQueue; one that is there as it is asked for is the answer."""
        name, asked = call["QueueName"], call.parameters.get("Attributes", {})
        properties = {key: _SAID.get(value, value) for key, value in asked.items()}
        if bool(properties.get("FifoQueue")) != name.endswith(".fifo"):
            reason = "The name of a FIFO queue can only include alphanumeric characters, ... and must end with .fifo"
            raise ApiError("InvalidParameterValue", reason)
        there = next((queue for queue in self.queues.values() if queue.name == name), None)
        if there is not None:
            if any(there.properties.get(key) != value for key, value in properties.items()):
                raise ApiError("QueueNameExists", "A queue already exists with the same name and different attributes.")
            return {"QueueUrl": there.url}
        made = self.create(name, properties)
        for tell in self.told:
            tell(made)
        return {"QueueUrl": made.url}

    def delete_queue(self, call: Call) -> dict[str, Any]:
        """DeleteQueue, with all that it holds."""
        queue = self.queues.pop(self.queue(call["QueueUrl"]).url)
        for tell in self.removed:
            tell(queue)
        return {}

    def list_queues(self, call: Call) -> dict[str, Any]:
        """ListQueues, a page at a time if a page was asked for."""
        prefix, most = call.parameters.get("QueueNamePrefix", ""), call.parameters.get("MaxResults")
        after = call.parameters.get("NextToken", "")
        urls = sorted(url for url, queue in self.queues.items() if queue.name.startswith(prefix) and url > after)
        page = urls[: most or PAGE]
        if not page:
            return {}
        more = {"NextToken": page[-1]} if most and len(urls) > most else {}
        return {"QueueUrls": page, **more}

    def get_queue_attributes(self, call: Call) -> dict[str, Any]:
        """GetQueueAttributes: how much lies in it."""
        queue, asked = self.queue(call["QueueUrl"]), call.parameters.get("AttributeNames", ())
        hidden = queue.in_flight()
        known = {
            "ApproximateNumberOfMessages": str(sum(1 for _ in queue.messages()) - hidden),
            "ApproximateNumberOfMessagesNotVisible": str(hidden),
        }
        told = {name: said for name, said in known.items() if name in asked or "All" in asked}
        return {"Attributes": told} if told else {}

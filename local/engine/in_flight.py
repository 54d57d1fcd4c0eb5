"""Makes the engine's queues refuse, like SQS, to change the visibility of a message that is not in flight."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

CHANGE = "ChangeMessageVisibility"


def install(queues: ModuleType) -> None:
    """Wrap the handler of the engine's queue service: a returned message is not in flight."""
    change = queues._HANDLERS[CHANGE]

    def change_in_flight(request: Mapping[str, Any], queue_url: str) -> Any:
        queue = queues._get_q(request.get("QueueUrl", queue_url), f"sqs:{CHANGE}")
        now, receipt = queues.time.time(), request.get("ReceiptHandle")
        if any(each["receipt_handle"] == receipt and each["visible_at"] <= now for each in queue["messages"]):
            raise queues._Err("MessageNotInflight", "The specified message isn't in flight.")
        return change(request, queue_url)

    queues._HANDLERS[CHANGE] = change_in_flight

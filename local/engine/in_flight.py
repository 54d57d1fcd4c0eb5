"""Has the engine refuse to hide an entry of a queue that is visible, as SQS does: whoever received it gave it back."""

import time
from types import ModuleType
from typing import Any

NOT_IN_FLIGHT = "MessageNotInflight"


def install(queues: ModuleType) -> None:
    """Have the engine's service of queues change the visibility of single entries only while they are invisible."""
    change = queues._HANDLERS["ChangeMessageVisibility"]

    def change_in_flight(request: dict[str, Any], url: str) -> Any:
        queue = queues._get_q(request.get("QueueUrl", url), "sqs:ChangeMessageVisibility")
        held = (entry for entry in queue["messages"] if entry["receipt_handle"] == request["ReceiptHandle"])
        if any(entry["visible_at"] <= time.time() for entry in held):
            raise queues._Err(NOT_IN_FLIGHT, "The specified message isn't in flight.")
        return change(request, url)

    queues._HANDLERS["ChangeMessageVisibility"] = change_in_flight

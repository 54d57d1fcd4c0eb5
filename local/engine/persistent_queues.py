"""Records changes of the engine's queues in the journal. At the start it replays the recorded changes."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from local.engine.journal import Journal

KEPT = ("messages", "dedup_cache", "fifo_seq")
"""The fields of a queue that change with its messages."""
HELD = ("receipt_handle", "visible_at", "receive_count", "first_receive_at")
"""The fields of a message that change when it is received."""

OF_QUEUES = frozenset(("sent", "held", "gone", "shown", "queue"))
"""The kinds of change in this module."""

Queue = dict[str, Any]
Action = Callable[[dict[str, Any], str], Any]


class PersistentQueues:
    """Records changes of SQS queues in the journal, by the queue's ARN. *queues* is the engine's module for SQS."""

    def __init__(self, queues: ModuleType, journal: Journal) -> None:
        self._queues = queues
        self._journal = journal
        self._again: dict[str, _Again] | None = None

    def install(self) -> None:
        """Wrap the engine's functions that change messages. Call this before other modules wrap the same functions."""
        queues, handlers = self._queues, self._queues._HANDLERS
        send, collect, sweep = queues._act_send_message, queues._collect_msgs, queues._dlq_sweep

        def send_message(request: dict[str, Any], url: str) -> Any:
            answer = send(request, url)
            queue = self._queue(request, url)
            if queue["messages"] and queue["messages"][-1]["id"] == answer["MessageId"]:
                self._journal.add("sent", _arn(queue), queue["messages"][-1])
            return answer

        def collect_messages(queue: Queue, most: int, visibility_timeout_s: int) -> Any:
            found = collect(queue, most, visibility_timeout_s)
            if found:
                self._journal.add("held", _arn(queue), [[each["id"], *(each[name] for name in HELD)] for each in found])
            return found

        def sweep_dead_letters(queue: Queue) -> None:
            before = len(queue["messages"])
            sweep(queue)
            if len(queue["messages"]) != before:
                target = json.loads(queue["attributes"]["RedrivePolicy"])["deadLetterTargetArn"]
                self._keep_whole(queue, queues._queue_by_arn(target))

        queues._act_send_message = handlers["SendMessage"] = send_message  # type: ignore[attr-defined]
        queues._collect_msgs, queues._dlq_sweep = collect_messages, sweep_dead_letters  # type: ignore[attr-defined]
        for name in ("DeleteMessage", "DeleteMessageBatch"):
            handlers[name] = self._keeping(handlers[name], self._keep_deletion)
        for name in ("ChangeMessageVisibility", "ChangeMessageVisibilityBatch"):
            handlers[name] = self._keeping(handlers[name], self._keep_visibility)
        for name in ("CreateQueue", "PurgeQueue"):
            handlers[name] = self._keeping(handlers[name], lambda queue, request: self._keep_whole(queue))

    def show(self, arn: str) -> None:
        """Make all received messages of a queue visible again. Call this after the process that received them died."""
        queue = self._queues._queue_by_arn(arn)
        for message in queue["messages"] if queue else ():
            if message["receive_count"]:
                message["visible_at"] = min(message["visible_at"], time.time())
        if queue:
            self._keep_whole(queue)

    def structure(self) -> dict[str, Any]:
        """Return the queues without their messages, in the form of the engine's own stored state."""
        bare = self._queues.AccountRegionScopedDict()
        for place, queue in self._queues._queues.all_items():
            bare.set_scoped(*place, {**queue, "messages": [], "dedup_cache": {}})
        return {"queues": bare, "queue_name_to_url": self._queues._queue_name_to_url}

    def state(self) -> dict[str, Any]:
        """Return the messages of every queue by ARN, with the other fields in :data:`KEPT`."""
        return {_arn(queue): {name: queue[name] for name in KEPT} for queue in self._queues._queues.all_values()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Put the messages in *state* into the queues. Messages of queues that no longer exist are dropped."""
        for queue in self._queues._queues.all_values():
            queue |= state.get(_arn(queue), {})

    def replay_change(self, kind: str, arn: str, change: Any) -> None:
        """Replay one change of the journal; ignore a change of a deleted queue. Call `end` after the last change."""
        if self._again is None:
            self._again = {_arn(queue): _Again(queue) for queue in self._queues._queues.all_values()}
        if (again := self._again.get(arn)) is not None:
            again.make(kind, change, self._queues._DEDUP_WINDOW_S)

    def end(self) -> None:
        """Finish the replay: put the replayed messages into the queues."""
        for again in (self._again or {}).values():
            again.queue["messages"] = list(again.messages.values())
        self._again = None

    def _queue(self, request: Mapping[str, Any], url: str) -> Queue:
        found: Queue = self._queues._get_q(request.get("QueueUrl", url))
        return found

    def _keeping(self, action: Action, keep: Callable[[Queue, Mapping[str, Any]], None]) -> Action:
        def act(request: dict[str, Any], url: str) -> Any:
            answer = action(request, url)
            keep(self._queue({"QueueUrl": url, **request, **answer}, url), request)
            return answer

        return act

    def _keep_whole(self, *queues: Queue | None) -> None:
        for queue in queues:
            if queue is not None:
                self._journal.add("queue", _arn(queue), {name: queue[name] for name in KEPT})

    def _keep_deletion(self, queue: Queue, request: Mapping[str, Any]) -> None:
        self._journal.add("gone", _arn(queue), [each["ReceiptHandle"] for each in _entries(request)])

    def _keep_visibility(self, queue: Queue, request: Mapping[str, Any]) -> None:
        now = time.time()
        shown = [[each["ReceiptHandle"], now + int(each.get("VisibilityTimeout", 30))] for each in _entries(request)]
        self._journal.add("shown", _arn(queue), shown)


class _Again:
    """A queue during replay: its messages by id, and by receipt handle."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._take_over(queue["messages"])

    def make(self, kind: str, change: Any, window_s: float) -> None:
        match kind:
            case "sent":
                self._send(change, window_s)
            case "held":
                for message_id, *held in change:
                    self._hold(message_id, held)
            case "gone":
                for handle in change:
                    self.messages.pop(self._held.pop(handle, ""), None)
            case "shown":
                for handle, visible_at in change:
                    if (message := self.messages.get(self._held.get(handle, ""))) is not None:
                        message["visible_at"] = visible_at
            case "queue":
                self.queue.update(change)
                self._take_over(change["messages"])

    def _hold(self, message_id: str, held: list[Any]) -> None:
        if (message := self.messages.get(message_id)) is not None:
            self._held.pop(message["receipt_handle"], None)
            message.update(zip(HELD, held, strict=True))
            self._held[message["receipt_handle"]] = message_id

    def _send(self, message: dict[str, Any], window_s: float) -> None:
        self.messages[message["id"]] = message
        if message["seq"]:
            self.queue["fifo_seq"] = int(message["seq"])
            self.queue["dedup_cache"][message["dedup_cache_key"]] = {
                "expire": message["sent_at"] + window_s,
                "id": message["id"], "md5": message["md5_body"], "md5a": message["md5_attrs"], "seq": message["seq"],
            }  # fmt: skip

    def _take_over(self, messages: Iterable[dict[str, Any]]) -> None:
        self.messages = {message["id"]: message for message in messages}
        self._held = {message["receipt_handle"]: message["id"] for message in messages if message["receipt_handle"]}


def _arn(queue: Queue) -> str:
    return str(queue["attributes"]["QueueArn"])


def _entries(request: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    found: Iterable[Mapping[str, Any]] = request.get("Entries", [request])
    return found

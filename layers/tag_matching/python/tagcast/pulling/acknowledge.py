"""Members' answers to pulled messages: acknowledge, nack, extend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from tagcast.errors import Fault, FaultCode, InvalidRequestError
from tagcast.model import Entry, EntryState, Subscription
from tagcast.ports import GroupQueue, World
from tagcast.pulling.group import end_pulled, group_of, keep_failure, queue_s
from tagcast.pulling.handles import HIDDEN_S_MAX, Handle, handle_of
from tagcast.rows import stored
from tagcast.rows.message import MessageRow


class Status(StrEnum):
    """The result for one receipt handle. The last four statuses mean that nothing changed.

    EXPIRED: the visibility timeout has ended. OVER: the delivery ended in another state, or the message is deleted.
    """

    ACKNOWLEDGED = "acknowledged"
    RETURNED = "returned"
    EXTENDED = "extended"
    ALREADY_ACKNOWLEDGED = "already_acknowledged"
    OVER = "over"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class HandleResult:
    """A receipt handle and its result. After an extension, *new* replaces the handle; otherwise *new* is None."""

    receipt_handle: str
    status: Status
    new: str | None = None


@dataclass(frozen=True, slots=True)
class _ValidHandle:
    """A valid handle: its message is pending for the group, and no other member has it."""

    text: str
    handle: Handle
    row: MessageRow

    def result(self, status: Status, new: str | None = None) -> HandleResult:
        return HandleResult(self.text, status, new)


def acknowledge(world: World, topic: str, name: str, handles: Sequence[str]) -> tuple[HandleResult, ...]:
    """End the deliveries of *handles* as delivered; return one result for each handle, in order.

    Raises NotFoundError, ConflictError if the subscription is not a group, and UnavailableError after many conflicts.
    """
    group = group_of(world, topic, name)
    answers = []
    for looked in _check_handles(world, group, handles):
        if isinstance(looked, _ValidHandle):
            handle = looked.handle
            entry = Entry(EntryState.DELIVERED, handle.number, handle.pulled_at, Status.ACKNOWLEDGED.value)
            if end_pulled(world, group, looked.row, entry):
                world.telemetry.record_end(looked.row.message, group, EntryState.DELIVERED)
                answers.append(looked.result(Status.ACKNOWLEDGED))
                continue
            [looked] = _check_handles(world, group, (looked.text,))
        assert isinstance(looked, HandleResult), "an ended delivery is not pending"
        answers.append(looked)
    done = (Status.ACKNOWLEDGED, Status.ALREADY_ACKNOWLEDGED, Status.OVER)
    known = [handle_of(each.receipt_handle, group) for each in answers if each.status in done]
    if gone := tuple({handle.receipt: None for handle in known if handle is not None}):
        world.group_queues.delete(GroupQueue.of(group), gone)
    return tuple(answers)


def release(world: World, topic: str, name: str, handles: Sequence[str], delay_s: int) -> tuple[HandleResult, ...]:
    """Make messages visible again in *delay_s* seconds, at most 12 h after their pull; return one result per handle."""
    group = group_of(world, topic, name)
    looked_at = _check_handles(world, group, handles)
    good = [each for each in looked_at if isinstance(each, _ValidHandle)]
    seconds = {}
    for each in good:
        keep_failure(world, group, each.row.message, each.handle.number, Status.RETURNED.value)
        left_s = HIDDEN_S_MAX - 1 - (world.clock.now() - each.handle.pulled_at) // 1000
        seconds[each.handle.receipt] = max(0, min(queue_s(world, delay_s), left_s))
    if seconds:
        world.group_queues.hide(GroupQueue.of(group), seconds)
    return tuple(each.result(Status.RETURNED) if isinstance(each, _ValidHandle) else each for each in looked_at)


def extend(
    world: World, topic: str, name: str, handles: Sequence[str], visibility_timeout_s: int
) -> tuple[HandleResult, ...]:
    """Hide the messages of these handles for *visibility_timeout_s* seconds from now; return a result for each handle.

    The result of an extended handle has the new handle. The result of any other handle says why it was not extended.
    Raises InvalidRequestError if a timeout would end more than 12 h after the pull. Then no timeout changes.
    """
    group = group_of(world, topic, name)
    looked_at = _check_handles(world, group, handles)
    good = [each for each in looked_at if isinstance(each, _ValidHandle)]
    seconds = queue_s(world, visibility_timeout_s)
    until = world.clock.now() + seconds * 1000
    late = [each.text for each in good if until > each.handle.pulled_at + HIDDEN_S_MAX * 1000]
    if late:
        reason = f"would be more than {HIDDEN_S_MAX} seconds after the pull"
        raise InvalidRequestError(
            tuple(
                Fault(reason, f"/receipt_handles/{place}", FaultCode.TOO_LARGE)
                for place, text in enumerate(handles)
                if text in late
            )
        )
    refused: set[str] = set()
    if good:
        refused.update(world.group_queues.hide(GroupQueue.of(group), {each.handle.receipt: seconds for each in good}))
    return tuple(_extend(group, each, until, refused) if isinstance(each, _ValidHandle) else each for each in looked_at)


def _extend(group: Subscription, good: _ValidHandle, until: int, refused: set[str]) -> HandleResult:
    if good.handle.receipt in refused:
        return good.result(Status.EXPIRED)
    return good.result(Status.EXTENDED, replace(good.handle, until=until).text(group))


def _check_handles(world: World, group: Subscription, texts: Sequence[str]) -> list[_ValidHandle | HandleResult]:
    """Check at most 100 handles. Return each valid handle, or a result that says why a handle is invalid."""
    handles = {text: handle_of(text, group) for text in texts}
    ids = {handle.message_id: None for handle in handles.values() if handle is not None}
    rows = stored.messages_with(world.store, group.topic, list(ids), group.ordinal) if ids else {}
    now = world.clock.now()
    return [_standing(group, text, handles[text], rows, now) for text in texts]


def _standing(
    group: Subscription, text: str, handle: Handle | None, rows: dict[str, MessageRow], now: int
) -> _ValidHandle | HandleResult:
    if handle is None:
        return HandleResult(text, Status.UNKNOWN)
    row = rows.get(handle.message_id)
    if row is None:
        return HandleResult(text, Status.OVER)
    if group.ordinal not in row.map.pending:
        got = row.map.entry(group.ordinal).state is EntryState.DELIVERED
        return HandleResult(text, Status.ALREADY_ACKNOWLEDGED if got else Status.OVER)
    if now >= handle.until:
        return HandleResult(text, Status.EXPIRED)
    return _ValidHandle(text, handle, row)

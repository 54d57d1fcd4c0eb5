"""Explains why a subscription did or did not receive a message: its filter at that time, then the delivery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tagcast.errors import NotFoundError
from tagcast.filters.compiled import CompiledFilter
from tagcast.filters.explanation import Explanation, Value
from tagcast.filters.function_filter import FILTER_ERROR, FunctionFilter
from tagcast.filters.kinds import compile_filter
from tagcast.instant import rfc3339, rfc3339_or_none
from tagcast.model import Draft, Entry, EntryState, LaneState, Message
from tagcast.operating.messages import attempt_json, entry_view, read_message
from tagcast.ports import World
from tagcast.registry.directory import read_topic
from tagcast.registry.filter_history import versions_in_force
from tagcast.rows import stored
from tagcast.rows.message import MessageRow, section_number_of
from tagcast.rows.subscription import FILTER_VERSIONS, REMOVALS, FilterVersion


def test_filter(filter: Mapping[str, object] | None, draft: Draft) -> tuple[str, Mapping[str, object], tuple[str, ...]]:
    """Return a filter's verdict on a message, the verdict's explanation, and the filter's warnings.

    Raises InvalidFilterError.

    >>> test_filter({"kind": "tags", "tags": ["apple"]}, Draft(b"", tags=("apple", "imac")))[0]
    'matched'
    """
    message = Message(topic="", message_id="", draft=draft, accepted_at=0, expires_at=0)
    compiled = compile_filter(filter)
    explanation, warnings = compiled.explain(message), compiled.warnings
    if isinstance(compiled, FunctionFilter):
        warnings = (f"the function {compiled.function} was not called: it decides before the first push",)
    return explanation.verdict, explanation.as_json(), warnings


test_filter.__test__ = False  # type: ignore[attr-defined]  # pytest must not collect it.


def explain(world: World, topic: str, message_id: str, subscription: str) -> Mapping[str, object]:
    """Return why *subscription* did or did not receive the message, as plain JSON values.

    *subscription* is a name, or a name with an ordinal (``billing#3``), as in the state map of the message.

    Raises NotFoundError if the message and its receipt were deleted, or if no present or deleted subscription has that
    name.
    """
    row = read_message(world, topic, message_id)
    name, _, number = subscription.partition("#")
    ordinal = _matched_ordinal(world, row, name, int(number)) if number else _ordinal(world, topic, name, row)
    if row.is_wide:
        row = stored.with_ends(world.store, row, section_number_of(row, ordinal))
    late = row.map.added_later.get(ordinal)
    if late is None:
        version = versions_in_force(world, topic, row.subscriptions_version, (ordinal,)).get(ordinal)
    else:
        version = FILTER_VERSIONS.read(world.store, topic, ordinal, late.filter_version)
    answer: dict[str, object] = {"topic": topic, "message_id": message_id, "subscription": subscription}
    answer |= row.message.trace.fields
    absence = _absence(world, row, name, ordinal, version)
    if version is None or absence is not None:
        return answer | {"existed": False, "received": False, "reason": absence, "filter": None, "delivery": None}
    entry = entry_view(world, row, ordinal)
    filter = compile_filter(version.filter)
    is_stored = filter.reads_body and not row.has_body
    if is_stored:
        tree = _as_stored(filter.kind, row, subscription, is_matched=entry is not None)
    else:
        tree = _as_decided(filter.explain(row.message), filter, entry)
    return answer | {
        "existed": late is None,
        "received": entry is not None and entry.state.value == "delivered",
        "reason": _reason(row.message, filter, tree, entry, is_stored=is_stored),
        "filter": _filter(version, tree),
        "delivery": None if entry is None else _delivery(world, row.message, name, ordinal, entry),
    }


def _as_stored(kind: str, row: MessageRow, subscription: str, *, is_matched: bool) -> Explanation:
    """Return the stored verdict of a filter that cannot be evaluated again, because the message's body is deleted."""
    value: Value = True if is_matched else "error" if subscription in row.filter_errors else False
    note = "the body is deleted; this is the filter's stored verdict"
    if not (is_matched or value) and row.filter_error_count > len(row.filter_errors):
        note = f"the body is deleted; it did not match, or failed: {len(row.filter_errors)} failures are stored by name"
    return Explanation(f"{kind.replace('_', ' ')}, as stored", value, note=note)


def _as_decided(tree: Explanation, filter: CompiledFilter, entry: Entry | None) -> Explanation:
    """Return *tree* with the verdict of a filter function, if the delivery ended without a push because of it."""
    if not isinstance(filter, FunctionFilter) or entry is None:
        return tree
    if entry.state is EntryState.FILTERED:
        return replace(tree, value=False, note="the function, or the filter that replaced it, did not match")
    if entry.last_outcome == FILTER_ERROR:
        return replace(tree, value="error", note="the function gave no verdict")
    return tree


def _ordinal(world: World, topic: str, subscription: str, row: MessageRow) -> int:
    """Return the ordinal of *subscription* that matched the message, or else its newest ordinal.

    Ordinals that existed when the message was accepted go before later ordinals.
    """
    read_topic(world, topic)
    present = stored.subscription(world.store, topic, subscription)
    removed = stored.removed_names(world.store, topic)  # Read last: includes subscriptions deleted meanwhile.
    ordinals = {ordinal for ordinal, name in removed.items() if name == subscription}
    known = sorted(ordinals if present is None else {*ordinals, present.ordinal})
    if not known:
        raise NotFoundError("subscription", subscription)
    if got := [ordinal for ordinal in known if ordinal in row.map.matched]:
        return got[-1]
    return max(versions_in_force(world, topic, row.subscriptions_version, known), default=known[-1])


def _matched_ordinal(world: World, row: MessageRow, name: str, ordinal: int) -> int:
    """Return *ordinal*; raise NotFoundError if its subscription did not match the message, or is not named *name*."""
    known = stored.subscription_name(world.store, row.message.topic, ordinal)
    if ordinal not in row.map.matched or (name and known not in (name, None)):
        raise NotFoundError("subscription", f"{name}#{ordinal}")
    return ordinal


def _absence(world: World, row: MessageRow, name: str, ordinal: int, version: FilterVersion | None) -> str | None:
    """Return why the subscription of *ordinal* did not exist when a message was published; None if it existed."""
    if version is None:
        present = stored.subscription(world.store, row.message.topic, name)
        since = None if present is None or present.ordinal != ordinal else present.settings.start_from
        if since is None or row.message.accepted_at < since or row.message.replay_of is not None:
            return "the subscription was created after the message was accepted"
        return (
            "the group was created after the message was accepted. Its start_from includes the message, but the "
            "message was not added: the filter did not match, the body was deleted, or the group is still filling"
        )
    gone = None if ordinal in row.map.matched else REMOVALS.read(world.store, row.message.topic, ordinal)
    if gone is None or not gone.precedes(row.subscriptions_version):
        return None
    return f"the subscription was deleted at {rfc3339(gone.removed_at)}, before the message was accepted"


def _reason(
    message: Message, filter: CompiledFilter, tree: Explanation, entry: Entry | None, *, is_stored: bool
) -> str:
    if entry is None:
        if message.replay_of is not None and is_stored:
            return f"a replay of {message.replay_of} for another subscription, or its filter did not match"
        if message.replay_of is not None and tree.verdict == "matched":
            return f"a replay of {message.replay_of} for another subscription"
        return "its filter failed" if tree.verdict == "error" else "its filter did not match"
    if entry.state is EntryState.FILTERED:
        return "before the first push, its filter function or the filter that replaced it did not match"
    outcome = f" ({entry.last_outcome})" if entry.last_outcome else ""
    if entry.last_outcome == FILTER_ERROR and isinstance(filter, FunctionFilter):
        fault = f"the filter function {filter.function} gave no verdict. Check that it exists and may be invoked"
        return f"the delivery is {entry.state.value}{outcome}: {fault}"
    if entry.added_at is not None:
        added = f"the group was created after the message, which was added at {rfc3339(entry.added_at)}"
        return f"{added}: its filter at that time matched; the delivery is {entry.state.value}{outcome}"
    return f"its filter matched; the delivery is {entry.state.value}{outcome}"


def _filter(version: FilterVersion, tree: Explanation) -> Mapping[str, object]:
    return {
        "version": version.version,
        "filter": version.filter,
        "verdict": tree.verdict,
        "explanation": tree.as_json(),
    }


def _delivery(world: World, message: Message, name: str, ordinal: int, entry: Entry) -> Mapping[str, object]:
    present = stored.subscription(world.store, message.topic, name) if name else None
    if present is None or present.ordinal != ordinal:  # It was deleted, and perhaps another one has its name.
        lane = LaneState.REMOVED
    else:
        known = stored.lane(world.store, message.topic, present.subscription_id)
        lane = LaneState.ACTIVE if known is None else known.state
    return {
        "state": entry.state.value,
        "attempts": entry.attempts,
        "last_attempt_at": rfc3339_or_none(entry.last_attempt_at),
        "last_outcome": entry.last_outcome,
        "history": [attempt_json(past) for past in entry.history],
        "expires_at": rfc3339(message.expires_at),
        "lane": lane.value,
        **({} if entry.added_at is None else {"added_at": rfc3339(entry.added_at)}),
    }

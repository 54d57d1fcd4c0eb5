"""Executes one action on many lanes. The action is previewed first; then a page shows its progress, lane by lane."""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from aiohttp import web
from tagcast_cli import lane_acts
from tagcast_cli.screen import count_noun
from tagcast_client import AsyncClient, ConflictError, NotFoundError, TagcastError
from tagcast_client.models import UrgentLane
from tagcast_client.settings import NamedLane

from local.console.attention import NO_ATTEMPT, NO_HOST, Choice, Name, need_words, place
from local.console.cached_list import PAGE, together
from local.console.desk import Desk, desk_of
from local.console.lanes import ACTS, ASLEEP

LANES_MAX = 1_000
NAMED_MAX = 50
AT_ONCE = 4
INDEPENDENT = "INDEPENDENT_RETRY"
SKIPPABLE_MAX = 1_000
"""Under INDEPENDENT_RETRY a skip finds its message among the first 1,000 of the backlog."""
KEPT_MAX = 50
UNDO = {"pause": "resume", "resume": "pause"}
MEANS = {
    **lane_acts.MEANS,
    "skip": "The head of each lane is cancelled permanently. Other subscriptions keep their deliveries. A lane with"
    " another head does not change.",
}
OF_FOUND = (
    "The deliveries of the messages of the search are cancelled permanently, and no others. Other subscriptions keep"
    " their deliveries. Without INDEPENDENT_RETRY, a message behind another head does not change."
)


@dataclass
class Bulk:
    """One action on many lanes. *done* has the lanes that it has changed, *left* those that it could not, with reasons.

    *heads* maps each lane to the head that a skip cancels. If *messages* is not empty, a skip cancels the deliveries of
    these messages instead. *skipped* counts the cancelled deliveries.
    """

    act: str
    lanes: Sequence[Name]
    reason: str = ""
    heads: Mapping[Name, str] = field(default_factory=dict)
    messages: frozenset[str] = frozenset()
    began_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    done: list[Name] = field(default_factory=list)
    left: list[tuple[Name, str]] = field(default_factory=list)
    skipped: int = 0
    is_stopped: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def runs(self) -> bool:
        """Whether the action is running."""
        return self.task is not None and not self.task.done()

    @property
    def undo(self) -> str | None:
        """The name of the reverse action. It is None while this action runs, if no lane changed, or if none exists."""
        return UNDO.get(self.act) if self.done and not self.runs else None

    async def carry_out(self, desk: Desk) -> None:
        """Change the lanes, a few at a time, until all are done or the action is stopped. Then expire the caches."""

        async def change_lane(lane: Name) -> None:
            if self.is_stopped:
                return
            try:
                why_left = await self._act_on(desk.api, lane)
                if why_left:
                    self.left.append((lane, why_left))
                else:
                    self.done.append(lane)
            except (ConflictError, NotFoundError) as refused:
                self.left.append((lane, refused.detail or refused.title))
            except TagcastError as fault:
                self.left.append((lane, str(fault)))

        try:
            await together(change_lane, self.lanes, AT_ONCE)
        finally:
            desk.forget()

    async def _act_on(self, api: AsyncClient, lane: Name) -> str:
        """Change one lane. Return why nothing changed, or an empty text."""
        if self.act == "skip" and self.messages:
            return "" if await self._skip_messages(api, lane) else "its head is another message, or the messages ended"
        named: NamedLane = {"topic": lane[0], "subscription": lane[1]}
        if self.act == "skip":
            acted = await api.skip_lanes(self.reason, lanes=[{**named, "message_id": self.heads[lane]}])
            self.skipped += acted.changed
        else:
            acts = {"retry": api.retry_lanes, "pause": api.pause_lanes, "resume": api.resume_lanes}
            acted = await acts[self.act](lanes=[named])
        error = acted.lanes[0].error or {}
        return str(error.get("detail") or error.get("title") or "")

    async def _skip_messages(self, api: AsyncClient, lane: Name) -> bool:
        """Skip the lane's deliveries of *messages*, as far as possible. Return whether any was skipped.

        Under INDEPENDENT_RETRY any waiting delivery can be skipped. Otherwise only heads are skipped, until the
        head is another message.
        """
        subscription, any_was = await api.get_subscription(*lane), False
        if subscription.retry["strategy"] == INDEPENDENT and subscription.endpoint["protocol"] != "pull":
            for message_id in await _waiting(api, lane):
                if message_id in self.messages:
                    with suppress(ConflictError):  # The delivery has ended.
                        await api.skip(*lane, self.reason, message_id=message_id)
                        self.skipped, any_was = self.skipped + 1, True
            return any_was
        while True:
            heads = (await api.list_backlog(*lane, limit=1).page()).items
            if not heads or heads[0].message_id not in self.messages:
                return any_was
            await api.skip(*lane, self.reason, message_id=heads[0].message_id)
            self.skipped, any_was = self.skipped + 1, True


async def _waiting(api: AsyncClient, lane: Name) -> list[str]:
    """Return the ids of the first messages in a backlog, at most :data:`SKIPPABLE_MAX`."""
    found: list[str] = []
    async for delivery in api.list_backlog(*lane, limit=PAGE):
        found.append(delivery.message_id)
        if len(found) == SKIPPABLE_MAX:
            break
    return found


class Bulks:
    """The bulk actions of this console, by id."""

    def __init__(self) -> None:
        self._kept: dict[str, Bulk] = {}

    def begin(self, desk: Desk, bulk: Bulk) -> str:
        """Start *bulk* and return its id. If there are too many actions, the oldest finished ones are dropped."""
        over = [name for name, each in self._kept.items() if not each.runs]
        for name in over[: max(0, len(self._kept) + 1 - KEPT_MAX)]:
            del self._kept[name]
        name = secrets.token_hex(6)
        self._kept[name] = bulk
        bulk.task = asyncio.create_task(bulk.carry_out(desk))
        return name

    def get(self, name: str) -> Bulk:
        """Return a bulk action by its id. Raises HTTPNotFound."""
        if name not in self._kept:
            raise web.HTTPNotFound
        return self._kept[name]

    def running(self) -> dict[str, Bulk]:
        """Return the running bulk actions by id."""
        return {name: each for name, each in self._kept.items() if each.runs}

    async def stop(self) -> None:
        """Stop all bulk actions. Wait until each has finished the lanes in progress."""
        for bulk in self._kept.values():
            bulk.is_stopped = True
        await asyncio.gather(*(each.task for each in self._kept.values() if each.task is not None))


BULKS = web.AppKey("bulks", Bulks)


def lanes_json(lanes: Iterable[Name]) -> str:
    """Return the names of lanes as JSON, for a form field."""
    return json.dumps([list(each) for each in lanes], separators=(",", ":"))


def lanes_of(text: str) -> list[Name]:
    """Return the first :data:`LANES_MAX` names of lanes in *text*, the JSON of a form field.

    Raises HTTPBadRequest if *text* is invalid.
    """
    try:
        found = json.loads(text)
        return [(str(topic), str(name)) for topic, name in found][:LANES_MAX]
    except (ValueError, TypeError):
        raise web.HTTPBadRequest(
            text='Invalid field "lanes". Expected a JSON list, e.g. [["orders", "crm"]].\n'
        ) from None


def fits(act: str, lane: UrgentLane) -> bool:
    """Return whether *act* applies to a lane in its present state. A skip also needs a head.

    >>> lane = UrgentLane("orders", "crm", "suspended", None)
    >>> fits("retry", lane), fits("resume", lane), fits("skip", lane)
    (False, True, False)
    """
    return act in ACTS.get(lane.state, ASLEEP) and (act != "skip" or lane.head is not None)


async def preview(request: web.Request) -> web.Response:
    """Show the preview of an action on the lanes that the overview's selection includes."""
    desk, act, choice = desk_of(request), request.match_info["act"], Choice.of(request.query)
    reading = await desk.lanes.look()
    chosen = sorted(filter(choice.takes, reading.items), key=place)
    fitting = [lane for lane in chosen if fits(act, lane)]
    taken = fitting[:LANES_MAX]
    return page_of(
        desk,
        act,
        [(lane.topic, lane.subscription) for lane in taken],
        choice.path(),
        chosen=choice.parameters,
        unfit=len(chosen) - len(fitting),
        beyond=len(fitting) - len(taken),
        heads=[lane.head.message_id for lane in taken if lane.head is not None] if act == "skip" else (),
        command=command_of(act, choice),
    )


def command_of(act: str, choice: Choice) -> str:
    """Return the command line with the same selection. It is empty if no option expresses a part of the selection.

    >>> command_of("skip", Choice(topic="orders", state="blocked")), command_of("retry", Choice(need="person"))
    ("tagcast lanes skip --state blocked --topic orders --reason '…'", '')
    """
    if choice.need or choice.host == NO_HOST or choice.outcome == NO_ATTEMPT:
        return ""
    given = choice.parameters | ({"reason": "…"} if act == "skip" else {})
    return shlex.join(["tagcast", "lanes", act, *(word for name, it in given.items() for word in (f"--{name}", it))])


def page_of(
    desk: Desk,
    act: str,
    lanes: Sequence[Name],
    back: str,
    *,
    chosen: Mapping[str, str],
    unfit: int = 0,
    beyond: int = 0,
    heads: Sequence[str] = (),
    messages: Sequence[str] = (),
    command: str = "",
) -> web.Response:
    """Show the preview of an action on *lanes*, as a form that starts the action.

    *back* is the address of the cancel link. *chosen* has the fields of the selection. *unfit* counts the selected
    lanes to which the action does not apply. *beyond* counts the lanes above the limit of one action. *heads* are the
    ids of the lanes' heads. *messages* are ids that a search found; empty without a search. *command* is the equivalent
    command line; empty if there is none.
    """
    topics = len({topic for topic, _ in lanes})
    return desk.page(
        "bulk_preview.html",
        act=act,
        title=f"{act.capitalize()} {count_noun(len(lanes), 'lane')} of {count_noun(topics, 'topic')}",
        means=OF_FOUND if messages else MEANS[act],
        lanes=lanes,
        named=lanes[:NAMED_MAX],
        lanes_json=lanes_json(lanes),
        heads=",".join(heads),
        messages=",".join(messages),
        unfit=unfit,
        beyond=beyond,
        lanes_max=LANES_MAX,
        chosen=chosen,
        back=back,
        need_words=need_words,
        undo=UNDO.get(act),
        command=command,
    )


async def begin(request: web.Request) -> web.Response:
    """Start the action, and redirect to its progress."""
    desk, form, act = desk_of(request), await request.post(), request.match_info["act"]
    reason, messages = str(form.get("reason", "")).strip(), str(form.get("messages", ""))
    lanes = lanes_of(str(form.get("lanes", "")))
    heads = dict(zip(lanes, filter(None, str(form.get("heads", "")).split(",")), strict=False))
    if act == "skip" and not reason:
        raise web.HTTPBadRequest(text="A skip needs a reason.\n")
    if act == "skip" and not messages and len(heads) < len(lanes):
        raise web.HTTPBadRequest(text="A skip needs the head of each lane.\n")
    bulk = Bulk(act, lanes, reason, heads, frozenset(filter(None, messages.split(","))))
    raise web.HTTPSeeOther(f"/bulk/{request.app[BULKS].begin(desk, bulk)}")


async def show_progress(request: web.Request) -> web.Response:
    """Show the progress of an action."""
    desk, name = desk_of(request), request.match_info["name"]
    bulk = request.app[BULKS].get(name)
    named = bulk.done[:NAMED_MAX]
    return desk.page("bulk.html", bulk=bulk, name=name, lane_names=named, undo_lanes=lanes_json(bulk.done))


async def stop(request: web.Request) -> web.Response:
    """Stop an action. The lanes in progress are still changed."""
    request.app[BULKS].get(request.match_info["name"]).is_stopped = True
    raise web.HTTPSeeOther(f"/bulk/{request.match_info['name']}")


_ACT = "/bulk/{act:retry|pause|resume|skip}"
ROUTES = (
    web.get(_ACT, preview),
    web.post(_ACT, begin),
    web.get("/bulk/{name:[0-9a-f]{12}}", show_progress),
    web.post("/bulk/{name:[0-9a-f]{12}}/stop", stop),
)

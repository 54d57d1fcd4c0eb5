"""`tagcast dead-letters replay`: sends dead letters to their subscriptions again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text
from tagcast_client import Accepted, ArchivedMessage, Client, NewMessage, ProblemError, Pulled
from tagcast_client.operation import Json

from tagcast_cli.content import as_published
from tagcast_cli.groups import GroupName
from tagcast_cli.session import TopicName, session_of
from tagcast_cli.visible import visible_line

dead_letters = typer.Typer(no_args_is_help=True, help="Replay dead letters.")

PREFIX, OF, FROM = "dead_letter_", "dead_letter_of", "dead_letter_from"
PULLED_AT_ONCE, HIDDEN_S = 10, 3_600
"""A pull gets 10 letters. Letters that stay are hidden for an hour, because each further pull counts as an attempt.

The command makes them visible again at its end.
"""
UNAUTHORIZED, TOO_MANY, SERVER_ERROR = 401, 429, 500


@dataclass
class _Replaying:
    """A replay of one group's dead letters: *replayed* are the new ids, *stay* counts letters that are not replayed.

    *pulled* are receipt handles to nack. *updated_at* is the last update of each original subscription.
    """

    api: Client
    topic: str
    group: str
    replayed: list[str] = field(default_factory=list)
    stay: int = 0
    pulled: list[str] = field(default_factory=list)
    updated_at: dict[str, datetime] = field(default_factory=dict)

    def pull(self, limit: int | None) -> tuple[Pulled, ...]:
        """Pull the next letters; return none if no letter arrives within a second."""
        most = PULLED_AT_ONCE if limit is None else min(PULLED_AT_ONCE, limit - len(self.replayed) - self.stay)
        if most <= 0:
            return ()
        letters = self.api.pull(
            self.topic, self.group, max_messages=most, wait_seconds=1, visibility_timeout_seconds=HIDDEN_S
        )
        self.pulled += [each.receipt_handle for each in letters]
        return letters

    def send(self, letter: Pulled) -> Json:
        """Publish and acknowledge a letter. Return the fields to print, with *error* if the letter stays."""
        origin = letter.properties.get(FROM, "")
        topic, _, subscription = origin.partition("/")
        fields: Json = {"message_id": letter.message_id, "subscription": origin or None}
        if not subscription or OF not in letter.properties or letter.replay_of is not None:
            return self._stays(fields, "it is not a dead letter")
        if letter.properties[OF] in self.replayed:
            return self._stays(fields, "its replay failed again")
        original = ArchivedMessage(letter.properties[OF], _message_of(letter))
        try:
            if origin not in self.updated_at:
                self.updated_at[origin] = self.api.get_subscription(topic, subscription).updated_at
            # A repeated replay publishes a letter once. After an update of the subscription another filter may match.
            key = f"dead-letter-{letter.message_id}-{self.updated_at[origin].timestamp():.3f}"
            [result] = self.api.replay(topic, subscription, [original], idempotency_key=key)
        except ProblemError as problem:
            if problem.status in (UNAUTHORIZED, TOO_MANY) or problem.status >= SERVER_ERROR:
                raise
            return self._stays(fields, str(problem))
        if not isinstance(result, Accepted):
            return self._stays(fields, str(result.error.get("detail")))
        if not result.matched:
            return self._stays(fields, f"the filter of {subscription} does not match it any more")
        self.api.ack(self.topic, self.group, [letter.receipt_handle])
        self.pulled.remove(letter.receipt_handle)
        self.replayed.append(result.message_id)
        return {**fields, "replayed_as": result.message_id}

    def _stays(self, fields: Json, reason: str) -> Json:
        self.stay += 1
        return {**fields, "error": reason}

    def give_back(self) -> None:
        """Make the letters that were not replayed visible again."""
        for start in range(0, len(self.pulled), 100):
            self.api.nack(self.topic, self.group, self.pulled[start : start + 100])


def _message_of(letter: Pulled) -> NewMessage:
    own = {name: value for name, value in letter.properties.items() if not name.startswith(PREFIX)}
    return replace(NewMessage.like(letter, as_published(letter.body)), properties=own)


def _line(fields: Json) -> Text:
    text = Text(visible_line(f"{fields['message_id']}  {fields['subscription'] or '—'}  "))
    if "error" in fields:
        return text.append(visible_line(f"stays: {fields['error']}"), style="yellow")
    return text.append(visible_line(f"replayed as {fields['replayed_as']}"), style="green")


@dead_letters.command("replay")
def replay_letters(
    ctx: typer.Context,
    topic: TopicName,
    name: GroupName,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Replay at most N letters.")] = None,
) -> None:
    """Replay the dead letters in a consumer group of TOPIC, each to the subscription that gave it up.

    TOPIC is the dead-letter topic. A letter leaves the group when the service has accepted its replay. A letter stays
    if its replay is refused or fails again, or if the filter does not match the message any more. If a letter stays,
    the command exits with 1.
    """
    session = session_of(ctx)
    replaying = _Replaying(session.api, topic, name)
    try:
        while letters := replaying.pull(limit):
            for letter in letters:
                fields = replaying.send(letter)
                session.print_line(_line(fields), fields)
    finally:
        replaying.give_back()
    if not session.as_json:
        stays = f", {replaying.stay} stay" if replaying.stay else ""
        session.out.print(f"{len(replaying.replayed)} replayed{stays}.")
    if replaying.stay:
        raise typer.Exit(1)

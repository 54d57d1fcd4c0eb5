"""Which lanes a command is about: the options that `tagcast lanes` and the acts on many lanes share."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated

import typer
from tagcast_client.operation import Json

from tagcast_cli import completion


class ListedState(StrEnum):
    """The states of lanes that the list has."""

    BLOCKED = "blocked"
    LOST_CONTACT = "lost_contact"
    RETRYING = "retrying"
    PAUSED = "paused"
    SUSPENDED = "suspended"
    UNVERIFIED = "unverified"


@dataclass(frozen=True)
class Selection:
    """The lanes that have every value given here; None does not select."""

    topic: Annotated[
        str | None, typer.Option("--topic", help="Only lanes of this topic.", autocompletion=completion.topics)
    ] = None
    state: Annotated[ListedState | None, typer.Option("--state", help="Only lanes in this state.")] = None
    host: Annotated[str | None, typer.Option("--host", help="Only lanes whose endpoint is at this host.")] = None
    outcome: Annotated[
        str | None, typer.Option("--outcome", help="Only lanes with this last outcome of the head, e.g. 'http 503'.")
    ] = None
    text: Annotated[str | None, typer.Option("--text", help="Only lanes with this text in TOPIC / SUBSCRIPTION.")] = (
        None
    )

    @property
    def asked(self) -> dict[str, str]:
        """Return what is asked for, as a request has it.

        >>> Selection(host="http://a/").asked
        {'host': 'http://a'}
        """
        found = {name: str(value) for name, value in asdict(self).items() if value is not None}
        return found | {"host": found["host"].rstrip("/")} if "host" in found else found

    def takes(self, lane: Json) -> bool:
        """Say whether a lane of the list is selected, by the rule that the API has for acts on many lanes.

        >>> Selection(text="CRM").takes({"topic": "orders", "subscription": "crm"})
        True
        """
        asked = self.asked
        text = asked.pop("text", "").lower()
        found = {**lane, "outcome": (lane.get("head") or {}).get("last_outcome")}
        names = f"{lane.get('topic')} / {lane.get('subscription')}".lower()
        return text in names and all(found.get(name) == value for name, value in asked.items())

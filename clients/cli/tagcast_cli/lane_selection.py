"""The selection of lanes: options that `tagcast lanes` and its actions share."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated

import typer
from tagcast_client.operation import Json

from tagcast_cli import completion


class ListedState(StrEnum):
    """The states in lists of lanes."""

    BLOCKED = "blocked"
    LOST_CONTACT = "lost_contact"
    RETRYING = "retrying"
    PAUSED = "paused"
    SUSPENDED = "suspended"
    UNVERIFIED = "unverified"


OfTopic = Annotated[
    str | None, typer.Option("--topic", help="Only lanes of this topic.", autocompletion=completion.topics)
]
OfState = Annotated[ListedState | None, typer.Option("--state", help="Only lanes in this state.")]
OfHost = Annotated[str | None, typer.Option("--host", help="Only lanes whose endpoint is at this host.")]
OfOutcome = Annotated[
    str | None, typer.Option("--outcome", help="Only lanes with this last outcome of the head, e.g. 'http 503'.")
]
OfText = Annotated[str | None, typer.Option("--text", help="Only lanes with this text in TOPIC / SUBSCRIPTION.")]


@dataclass(frozen=True)
class Selection:
    """The lanes that match every given value; None matches all."""

    topic: str | None = None
    state: ListedState | None = None
    host: str | None = None
    outcome: str | None = None
    text: str | None = None

    @property
    def asked(self) -> dict[str, str]:
        """Return the given values as arguments of a request.

        >>> Selection(host="http://a/").asked
        {'host': 'http://a'}
        """
        found = {name: str(value) for name, value in asdict(self).items() if value is not None}
        return found | {"host": found["host"].rstrip("/")} if "host" in found else found

    def takes(self, lane: Json) -> bool:
        """Return whether a lane of the list is selected, by the same rule as in the API.

        >>> Selection(text="CRM").takes({"topic": "orders", "subscription": "crm"})
        True
        """
        asked = self.asked
        text = asked.pop("text", "").lower()
        found = {**lane, "outcome": (lane.get("head") or {}).get("last_outcome")}
        names = f"{lane.get('topic')} / {lane.get('subscription')}".lower()
        return text in names and all(found.get(name) == value for name, value in asked.items())

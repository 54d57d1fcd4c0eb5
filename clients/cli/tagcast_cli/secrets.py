"""`tagcast rotate-secret`: rotates the signing secret of a subscription."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text
from tagcast_client.operation import Json, path_of

from tagcast_cli.durations import duration
from tagcast_cli.session import SubscriptionName, TopicName, session_of
from tagcast_cli.subscriptions import subscription_fields


def rotate_secret(
    ctx: typer.Context,
    topic: TopicName,
    name: SubscriptionName,
    secret: Annotated[
        str | None,
        typer.Option(
            envvar="TAGCAST_SECRET", show_envvar=True, help="New secret (whsec_…); default: a generated secret."
        ),
    ] = None,
    grace: Annotated[int | None, duration(help="Time in which the old secret also signs; default: 1d.")] = None,
) -> None:
    """Rotate the signing secret. A generated secret is shown once."""
    session = session_of(ctx)
    given = {"secret": secret, "grace_seconds": grace}
    body: Json = {field: value for field, value in given.items() if value is not None}
    answer = session.api.request("POST", path_of("topics", topic, "subscriptions", name, "secret", "rotate"), body)
    session.show(answer, lambda shown: Group(Text(f"Secret of {name} rotated."), subscription_fields(shown)))

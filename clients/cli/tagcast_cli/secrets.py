"""`tagcast rotate-secret`: another secret for the pushes of a subscription."""

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
        typer.Option(envvar="TAGCAST_SECRET", show_envvar=True, help="The new one (whsec_…); else one is made."),
    ] = None,
    grace: Annotated[int | None, duration(help="How long the former secret signs as well: a day by default.")] = None,
) -> None:
    """Exchange the secret that signs the pushes of a subscription; one that is made is told here and never again."""
    session = session_of(ctx)
    given = {"secret": secret, "grace_seconds": grace}
    body: Json = {field: value for field, value in given.items() if value is not None}
    answer = session.api.request("POST", path_of("topics", topic, "subscriptions", name, "secret", "rotate"), body)
    session.show(answer, lambda shown: Group(Text(f"{name} has another secret."), subscription_fields(shown)))

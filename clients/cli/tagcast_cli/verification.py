"""`tagcast verify`: verifies an endpoint again."""

from __future__ import annotations

import typer
from rich.console import Group
from rich.text import Text
from tagcast_client.operation import Json, path_of

from tagcast_cli.session import SubscriptionName, TopicName, session_of
from tagcast_cli.subscriptions import subscription_fields, with_note


def verify(ctx: typer.Context, topic: TopicName, name: SubscriptionName) -> None:
    """Verify the endpoint of a subscription again. Pushes start after it confirms. Exits 1 if it does not."""
    session = session_of(ctx)
    answer = session.api.request("POST", path_of("topics", topic, "subscriptions", name, "verify"), {})

    def drawn(shown: Json) -> Group:
        if "state" not in shown:
            return Group(Text(f"The endpoint of {name} is verified."), subscription_fields(shown))
        return with_note(session, f"The endpoint of {name} did not confirm.", shown)

    session.show(answer, drawn)
    if "state" in answer.json:
        raise typer.Exit(1)

"""The account's default event bus, for changes of group memberships and events of topics."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from botocore.exceptions import BotoCoreError, ClientError
from tagcast.membership import MembershipChange

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aws_lambda_powertools import Logger

SOURCE, MEMBERSHIP_CHANGED = "tagcast", "Group Membership Changed"


class EventBridgeBus:
    """Implements the port ``EventBus``. Its client is created on first use; most processes never need it.

    All deployments of an account share the bus, so each event names *workflow*, the ARN of the deployment's workflow.
    """

    def __init__(self, make_client: Callable[[], Any], workflow: str, logger: Logger) -> None:
        self._make_client = make_client
        self._workflow = workflow
        self._logger = logger

    def announce(self, change: MembershipChange) -> None:
        """Publish one change of a membership. A failure is only logged, so the heartbeat succeeds."""
        detail = {
            "topic": change.topic,
            "group": change.group,
            "member_id": change.client.member_id,
            "member_version": change.client.version,
            "change": change.change.value,
            "members": change.members,
        }
        self._put(MEMBERSHIP_CHANGED, detail)

    def publish(self, event: Mapping[str, object]) -> None:
        """Publish one event of a topic, a CloudEvent. The detail type is its type; the detail has its data and id.

        A failure is only logged.
        """
        self._put(event["type"], {**cast("Mapping[str, object]", event["data"]), "id": event["id"]})

    def _put(self, detail_type: object, detail: Mapping[str, object]) -> None:
        event = {"Source": SOURCE, "DetailType": detail_type, "Detail": json.dumps(detail)}
        entry: Any = {**event, "Resources": [self._workflow]}
        try:
            answer = self._make_client().put_events(Entries=[entry])
        except (ClientError, BotoCoreError) as error:
            self._logger.warning("the event bus did not answer", extra={"error": type(error).__name__})
            return
        if answer["FailedEntryCount"]:
            self._logger.warning("the event bus refused", extra={"error": answer["Entries"][0].get("ErrorCode")})

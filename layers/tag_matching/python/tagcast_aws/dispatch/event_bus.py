"""The account's default event bus, where changes of groups' memberships are told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from tagcast.membership import MembershipChange

if TYPE_CHECKING:
    from collections.abc import Callable

    from aws_lambda_powertools import Logger

SOURCE, DETAIL_TYPE = "tagcast", "Group Membership Changed"


class EventBridgeBus:
    """The port ``EventBus``; its client is made when first something changes, which most processes never see."""

    def __init__(self, make_client: Callable[[], Any], logger: Logger) -> None:
        self._make_client = make_client
        self._logger = logger

    def announce(self, change: MembershipChange) -> None:
        """Tell of one change; a bus that does not take it costs nobody a heartbeat."""
        try:
            answer = self._make_client().put_events(Entries=[_entry(change)])
        except (ClientError, BotoCoreError) as error:
            self._logger.warning("the event bus did not answer", extra={"error": type(error).__name__})
            return
        if answer["FailedEntryCount"]:
            self._logger.warning("the event bus refused", extra={"error": answer["Entries"][0].get("ErrorCode")})


def _entry(change: MembershipChange) -> Any:
    detail = {
        "topic": change.topic,
        "group": change.group,
        "client_id": change.client.client_id,
        "client_version": change.client.version,
        "change": change.change.value,
        "members": change.members,
    }
    return {"Source": SOURCE, "DetailType": DETAIL_TYPE, "Detail": json.dumps(detail)}

"""A DynamoDB store for deduplication across processes: `Deduplicator(TableStore(client, "seen"))`.

The table has the key `name` (a string), and `expires_at` as its TTL attribute. A message costs two writes of 1 KiB.
"""

import math
import time
from collections.abc import Callable
from typing import Any

from tagcast_client import Claim

EXPIRED = "attribute_not_exists(#n) OR expires_at <= :now"


class TableStore:
    """Stores message names in a table. The role of *client* (`boto3.client("dynamodb")`) may put and delete items."""

    def __init__(self, client: Any, table: str, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._table = table
        self._clock = clock

    def claim(self, name: str, token: str, lease_s: float) -> Claim:
        """Claim *name* for the holder of *token* for *lease_s* seconds. Return NEW if *name* was free.

        Otherwise return IN_PROGRESS if another token holds the claim, or DONE if *name* is confirmed.
        """
        try:
            self._client.put_item(
                TableName=self._table,
                Item={**_key(name), "token": {"S": token}, "expires_at": self._in(lease_s)},
                ConditionExpression=EXPIRED,
                ExpressionAttributeNames={"#n": "name"},
                ExpressionAttributeValues={":now": {"N": str(math.floor(self._clock()))}},
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except self._client.exceptions.ConditionalCheckFailedException as refused:
            holder = refused.response["Item"].get("token", {}).get("S")
            if holder == token:  # boto3 repeated the request.
                return Claim.NEW
            return Claim.DONE if holder is None else Claim.IN_PROGRESS
        return Claim.NEW

    def confirm(self, name: str, life_s: float) -> None:
        """Record for *life_s* seconds that *name* is done."""
        self._client.put_item(TableName=self._table, Item={**_key(name), "expires_at": self._in(life_s)})

    def release(self, name: str, token: str) -> None:
        """Release the claim of *name*. Do nothing if another token holds the claim."""
        try:
            self._client.delete_item(
                TableName=self._table,
                Key=_key(name),
                ConditionExpression="#t = :token",
                ExpressionAttributeNames={"#t": "token"},
                ExpressionAttributeValues={":token": {"S": token}},
            )
        except self._client.exceptions.ConditionalCheckFailedException:
            return  # The lease has ended, and another holder has claimed the name.

    def _in(self, seconds: float) -> dict[str, str]:
        return {"N": str(math.ceil(self._clock() + seconds))}


def _key(name: str) -> dict[str, Any]:
    return {"name": {"S": name}}

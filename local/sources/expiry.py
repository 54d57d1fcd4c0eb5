"""Plays the tables' time to live: deletes rows whose TTL attribute has passed.

The engine's own collector writes no stream record; deleting through the API does. AWS takes up to two days
for the same, so nothing may depend on how soon this runs.
"""

from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError


@dataclass(frozen=True)
class Expiry:
    """The collector of one table with the keys pk and sk."""

    dynamodb: Any
    table: str
    attribute: str

    def collect(self, now_s: int) -> int:
        """Delete what has expired at `now_s` (epoch seconds); answers how many rows."""
        deleted = 0
        names = {"#ttl": self.attribute}
        values = {":zero": {"N": "0"}, ":now": {"N": str(now_s)}}
        pages = self.dynamodb.get_paginator("scan").paginate(
            TableName=self.table,
            FilterExpression="#ttl BETWEEN :zero AND :now",
            ProjectionExpression="pk, sk",
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=values,
        )
        for page in pages:
            for key in page["Items"]:
                deleted += self._delete(key, names, values)
        return deleted

    def _delete(self, key: dict[str, Any], names: dict[str, str], values: dict[str, Any]) -> int:
        try:
            self.dynamodb.delete_item(
                TableName=self.table,
                Key=key,
                ConditionExpression="#ttl BETWEEN :zero AND :now",
                ExpressionAttributeNames=names,
                ExpressionAttributeValues=values,
            )
        except ClientError as refusal:
            if refusal.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise
            return 0
        return 1

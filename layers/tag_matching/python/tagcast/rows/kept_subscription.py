"""A subscription as it is kept beside the table: its row as text, and what is asked before that is taken apart."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from tagcast.model import Subscription
from tagcast.rows.registry import filter_of, subscription_of
from tagcast.rows.values import number, text
from tagcast.tables import Row, Value

_LEFT_OUT = ("pk", "sk", "secret")
"""Only of a group a secret stands in its row, for receipts: who publishes or hands over needs none."""


class KeptSubscription(NamedTuple):
    """One subscription, whose row is the JSON *content*."""

    ordinal: int
    name: str
    keeps_order: bool
    content: str


class KeptSubscriptions:
    """Makes them of rows; what says whether an order is kept is worked out once for all that say the same."""

    def __init__(self) -> None:
        self._orders: dict[tuple[Value, Value, Value], bool] = {}

    def of(self, row: Row) -> KeptSubscription:
        """Return what is kept of a row."""
        about = (row["protocol"], row["strategy"], row.get("ordered"))
        if about not in self._orders:
            self._orders[about] = subscription_of(row).settings.keeps_order
        content = json.dumps({name: value for name, value in row.items() if name not in _LEFT_OUT})
        return KeptSubscription(number(row, "ordinal"), text(row, "name"), self._orders[about], content)


def kept_in(content: bytes) -> list[Row]:
    """Return the rows in a JSON list of them."""
    rows: list[Row] = json.loads(content)
    return rows


def subscriptions_kept(rows: list[Row]) -> dict[int, Subscription]:
    """Return the subscriptions in rows by their ordinals."""
    return {each.ordinal: each for each in map(subscription_of, rows)}


def filters_kept(rows: list[Row]) -> dict[int, Mapping[str, object] | None]:
    """Return only the filters of the subscriptions in rows, by their ordinals."""
    return {number(row, "ordinal"): filter_of(row) for row in rows}

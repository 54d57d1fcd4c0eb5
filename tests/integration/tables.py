"""The tables of template.yaml, made in moto."""

from __future__ import annotations

from typing import Any

from tagcast.ports import Table

from tests.template import declared

_KEPT = ("AttributeDefinitions", "KeySchema", "BillingMode", "GlobalSecondaryIndexes")


def make_tables(client: Any) -> dict[Table, str]:
    """Create both tables as the template declares them; return their names."""
    resources = declared()
    names = {}
    for table, logical in ((Table.REGISTRY, "RegistryTable"), (Table.MESSAGES, "MessagesTable")):
        properties = resources[logical]["Properties"]
        client.create_table(TableName=logical, **{name: properties[name] for name in _KEPT if name in properties})
        names[table] = logical
    return names

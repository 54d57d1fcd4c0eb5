"""The tables of template.yaml, made in moto."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from samtranslator.yaml_helper import yaml_parse
from tagcast.ports import Table

TEMPLATE = Path(__file__).parents[2] / "template.yaml"
_KEPT = ("AttributeDefinitions", "KeySchema", "BillingMode", "GlobalSecondaryIndexes")


def make_tables(client: Any) -> dict[Table, str]:
    """Create both tables as the template declares them; return their names."""
    resources = yaml_parse(TEMPLATE.read_text())["Resources"]
    names = {}
    for table, logical in ((Table.REGISTRY, "RegistryTable"), (Table.MESSAGES, "MessagesTable")):
        declared = resources[logical]["Properties"]
        client.create_table(TableName=logical, **{name: declared[name] for name in _KEPT if name in declared})
        names[table] = logical
    return names

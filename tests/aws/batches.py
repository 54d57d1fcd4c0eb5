"""BatchGetItem: many rows, each on its own; what was not read comes back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.aws import limits, reads
from tests.aws.attributes import Item, invalid
from tests.aws.calls import Call
from tests.aws.tables import NOTHING
from tests.aws.throughput import throttled

if TYPE_CHECKING:
    from tests.aws.dynamodb import DynamoDB


def get(service: DynamoDB, call: Call) -> dict[str, Any]:
    """BatchGetItem: what does not fit into 16 MB, or meets throttling, comes back unprocessed."""
    wanted = [
        (name, request, service.table(name), given)
        for name, request in call["RequestItems"].items()
        for given in request["Keys"]
    ]
    if len(wanted) > limits.BATCH_GET_KEYS_MAX:
        raise invalid("Too many items requested for the BatchGetItem call")
    keys = [table.key(given) for _, _, table, given in wanted]
    if len({(entry[0], key) for entry, key in zip(wanted, keys, strict=True)}) != len(keys):
        raise invalid("Provided list of item keys contains duplicates")
    spoiled = service.box.accidents.spoiled(call, len(wanted))
    found: dict[str, list[Item]] = {name: [] for name in call["RequestItems"]}
    left: dict[str, dict[str, Any]] = {}
    total = 0
    for place, ((name, request, table, given), key) in enumerate(zip(wanted, keys, strict=True)):
        row = None if place in spoiled else service.read_row(table, key, request.get("ConsistentRead", False))
        size = 0 if row is None or row is NOTHING else row.size
        if row is None or total + size > limits.BATCH_GET_BYTES_MAX:
            left.setdefault(name, {**request, "Keys": []})["Keys"].append(given)
        elif row is not NOTHING:
            total += size
            found[name].append(reads.projected(row.item, request))
    if sum(len(each["Keys"]) for each in left.values()) == len(wanted) and not spoiled:
        raise throttled("Table", "KeyRange", "Read", wanted[0][2].arn)
    return {"Responses": found, "UnprocessedKeys": left}

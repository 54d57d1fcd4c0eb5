"""Executes the service's PartiQL updates as UpdateItem requests, so that streams record the changes.

The unchanged engine writes no stream records for PartiQL, and parses each statement again. It still executes all other
statements.
"""

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from types import ModuleType
from typing import Any

from local.rules.limits import BATCH_STATEMENTS_MAX

_UPDATE = re.compile(
    r'UPDATE "(?P<table>[\w.-]+)"(?P<changes>(?: SET "\w+"=\?| REMOVE "\w+")+)'
    r' WHERE (?P<where>"\w+"=\?(?: AND "\w+"=\?)*)'
)
_CHANGE = re.compile(r'(SET|REMOVE) "(\w+)"')


@dataclass(frozen=True)
class UpdateStatement:
    """A parsed update: the attributes that it sets, removes, and compares in its condition.

    The statement's parameters are the values of *sets*, then those of *where*.
    """

    table: str
    sets: tuple[str, ...]
    removes: tuple[str, ...]
    where: tuple[str, ...]

    def update_item(self, keys: Collection[str], parameters: Sequence[Any]) -> dict[str, Any]:
        """Return the equivalent UpdateItem request. *keys* are the table's key attributes. Raises ValueError.

        The request fails for a missing row, so it creates none.

        >>> update = read('UPDATE "t" SET "a"=? REMOVE "b" WHERE "pk"=? AND "v"=?').update_item(["pk"], [1, "k", 2])
        >>> update["Key"], update["UpdateExpression"], update["ConditionExpression"]
        ({'pk': 'k'}, 'SET #s0 = :s0 REMOVE #r0', 'attribute_exists(#k) AND #w0 = :w0')
        >>> update["ExpressionAttributeNames"], update["ExpressionAttributeValues"]
        ({'#k': 'pk', '#s0': 'a', '#r0': 'b', '#w0': 'v'}, {':s0': 1, ':w0': 2})
        """
        if len(parameters) != len(self.sets) + len(self.where):
            raise ValueError("Number of parameters in request and statement don't match.")
        where = dict(zip(self.where, parameters[len(self.sets) :], strict=True))
        if not where.keys() >= set(keys):
            raise ValueError("Where clause does not contain a mandatory equality on all key attributes")
        key = {name: where.pop(name) for name in keys}
        sets = ", ".join(f"#s{place} = :s{place}" for place in range(len(self.sets)))
        removes = ", ".join(f"#r{place}" for place in range(len(self.removes)))
        names = {"#k": next(iter(keys))}
        for letter, named in (("s", self.sets), ("r", self.removes), ("w", where)):
            names |= {f"#{letter}{place}": name for place, name in enumerate(named)}
        values = {f":s{place}": value for place, value in enumerate(parameters[: len(self.sets)])}
        values |= {f":w{place}": value for place, value in enumerate(where.values())}
        update = {
            "TableName": self.table,
            "Key": key,
            "UpdateExpression": " ".join(filter(None, (sets and f"SET {sets}", removes and f"REMOVE {removes}"))),
            "ConditionExpression": " AND ".join(
                ("attribute_exists(#k)", *(f"#w{place} = :w{place}" for place in range(len(where))))
            ),
            "ExpressionAttributeNames": names,
        }
        return update | ({"ExpressionAttributeValues": values} if values else {})


@lru_cache(1024)
def read(statement: str) -> UpdateStatement | None:
    """Parse an update with quoted names and with parameters as values. Return None for any other statement.

    >>> read('SELECT * FROM "t"') is None
    True
    """
    found = _UPDATE.fullmatch(statement)
    if found is None:
        return None
    changes = _CHANGE.findall(found["changes"])
    sets = tuple(name for kind, name in changes if kind == "SET")
    removes = tuple(name for kind, name in changes if kind == "REMOVE")
    return UpdateStatement(found["table"], sets, removes, tuple(re.findall(r'"(\w+)"', found["where"])))


Answer = tuple[int, dict[str, str], str | bytes]
Operation = Callable[[dict[str, Any]], Answer]


def install(tables: ModuleType) -> None:
    """Make *tables*, the engine's module for DynamoDB, execute batches of PartiQL updates as UpdateItem requests."""
    otherwise: Operation = tables._batch_execute_statement

    def execute(request: dict[str, Any]) -> Answer:
        statements = request.get("Statements", [])
        updates = [read(each["Statement"]) for each in statements]
        if request.keys() != {"Statements"} or not 0 < len(updates) <= BATCH_STATEMENTS_MAX or None in updates:
            return otherwise(request)
        answers = [
            _response(tables, update, each.get("Parameters", []))
            for update, each in zip(updates, statements, strict=True)
            if update is not None
        ]
        answer: Answer = tables.json_response({"Responses": answers})
        return answer

    tables._batch_execute_statement = execute  # type: ignore[attr-defined]


def _response(tables: ModuleType, update: UpdateStatement, parameters: list[Any]) -> dict[str, Any]:
    table = tables._tables.get(update.table)
    if table is None:
        return {"Error": {"Code": "ResourceNotFound", "Message": "Requested resource not found"}}
    try:
        request = update.update_item([table["pk_name"], *filter(None, [table["sk_name"]])], parameters)
    except ValueError as fault:
        return {"Error": {"Code": "ValidationError", "Message": str(fault)}}
    status, _, body = tables._update_item(request)
    if status == HTTPStatus.OK:
        return {"TableName": update.table}
    refused = json.loads(body)
    code = str(refused["__type"]).rpartition("#")[2].removesuffix("Exception")
    shown = "ValidationError" if code == "Validation" else code
    return {"Error": {"Code": shown, "Message": refused.get("message", "")}, "TableName": update.table}

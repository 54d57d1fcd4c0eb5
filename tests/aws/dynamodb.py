"""DynamoDB: the operations on items that the shipped code uses, on tables that the template declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.aws import batches, key_conditions, limits, reads, statements
from tests.aws.attributes import invalid, read_units
from tests.aws.box import ACCOUNT, REGION, Box, Call, Service
from tests.aws.faults import ApiError, UnplayedError
from tests.aws.tables import NOTHING, Key, Row, Table
from tests.aws.throughput import throttled
from tests.aws.transactions import CONFLICT, Transactions
from tests.aws.writes import Intent, intent_of

ACTIONS = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}

PLAYED = {"TableName", "Item", "Key", "IndexName", "Limit", "ExclusiveStartKey", "ConsistentRead"} | {
    *(f"{name}Expression" for name in ("Condition", "Update", "KeyCondition", "Filter", "Projection")),
    *("ExpressionAttributeNames", "ExpressionAttributeValues"),
}
"""The parameters of operations on items that the shipped code gives."""


class DynamoDB(Service):
    """All tables of the account, by name."""

    name = "dynamodb"

    def __init__(self, box: Box) -> None:
        super().__init__(box)
        self.tables: dict[str, Table] = {}
        self._transactions = Transactions(self)

    def create(self, name: str, properties: Mapping[str, Any], shards: int = 1) -> Table:
        """Make a table as CloudFormation would from the *properties* of AWS::DynamoDB::Table."""
        arn = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}"
        table = self.tables[name] = Table(name, arn, properties, REGION, shards)
        return table

    def table(self, name: str) -> Table:
        """The table of a name or ARN, or DynamoDB's refusal."""
        found = self.tables.get(name) or self.tables.get(name.rsplit("/", 1)[-1])
        if found is None:
            raise ApiError("ResourceNotFoundException", "Requested resource not found")
        return found

    def needs(self, call: Call) -> Iterable[tuple[str, str]]:
        parameters = call.parameters
        match call.operation:
            case "TransactWriteItems":
                for item in parameters["TransactItems"]:
                    for kind, write in item.items():
                        yield f"dynamodb:{ACTIONS[kind]}", _arn(write["TableName"])
            case "BatchExecuteStatement":
                for statement in parameters["Statements"]:
                    yield "dynamodb:PartiQLUpdate", _arn(statements.parsed(statement["Statement"]).table)
            case "BatchGetItem":
                for name in parameters["RequestItems"]:
                    yield f"dynamodb:{call.operation}", _arn(name)
            case _:
                index = f"/index/{parameters['IndexName']}" if "IndexName" in parameters else ""
                yield f"dynamodb:{call.operation}", _arn(parameters["TableName"]) + index

    # Single writes.

    def put_item(self, call: Call) -> dict[str, Any]:
        """PutItem."""
        return self._write("Put", call)

    def update_item(self, call: Call) -> dict[str, Any]:
        """UpdateItem."""
        return self._write("Update", call)

    def delete_item(self, call: Call) -> dict[str, Any]:
        """DeleteItem."""
        return self._write("Delete", call)

    def _write(self, kind: str, call: Call) -> dict[str, Any]:
        self.write(self.intent(kind, call.parameters))
        return {}

    def write(self, intent: Intent) -> None:
        """Do one write, unless a transaction holds its row; also one whose condition is lost takes its units."""
        if intent.key in intent.table.held:
            raise ApiError("TransactionConflictException", CONFLICT)
        try:
            intent.evaluate()
        finally:
            self.admit(intent, 1)
            self.charge(intent, 1)
        intent.commit(self.box.timeline.now)

    def intent(self, kind: str, parameters: Mapping[str, Any]) -> Intent:
        """Check one write as far as that goes without its row."""
        _check_is_played(parameters)
        return intent_of(self.table(parameters["TableName"]), kind, parameters)

    def admit(self, intent: Intent, factor: int) -> None:
        """Raise DynamoDB's throttling error if the write asks for more than table, key or indexes give."""
        now, table = self.box.timeline.now, intent.table
        lacking = table.throughput.may_write(now, intent.key[0], factor * intent.units)
        if lacking:
            raise throttled("Table", lacking, "Write", table.arn)
        if table.indexes:
            for name, place, units in intent.index_units():
                lacking = table.throughput_of(name).may_write(now, place[0], units)
                if lacking:
                    raise throttled("Index", lacking, "Write", f"{table.arn}/index/{name}")

    def charge(self, intent: Intent, factor: int) -> None:
        """Take the units that `admit` granted."""
        intent.table.throughput.write(intent.key[0], factor * intent.units)
        if intent.table.indexes:
            for name, place, units in intent.index_units():
                intent.table.throughput_of(name).write(place[0], units)

    # Transactions and batches.

    def transact_write_items(self, call: Call) -> dict[str, Any]:
        """TransactWriteItems."""
        self._transactions.write(call)
        return {}

    def batch_get_item(self, call: Call) -> dict[str, Any]:
        """BatchGetItem."""
        return batches.get(self, call)

    def batch_execute_statement(self, call: Call) -> dict[str, Any]:
        """BatchExecuteStatement."""
        return statements.execute(self, call)

    # Reads.

    def get_item(self, call: Call) -> dict[str, Any]:
        """GetItem."""
        parameters = call.parameters
        _check_is_played(parameters)
        table = self.table(parameters["TableName"])
        row = self.read_row(table, table.key(parameters["Key"]), parameters.get("ConsistentRead", False))
        if row is None:
            raise throttled("Table", "KeyRange", "Read", table.arn)
        return {} if row is NOTHING else {"Item": reads.projected(row.item, parameters)}

    def read_row(self, table: Table, key: Key, consistent: bool) -> Row | None:
        """The row, NOTHING where there is none, or None when it is throttled."""
        now = self.box.timeline.now
        if table.throughput.may_read(now, key[0]):
            return None
        older = {} if consistent else self._older(table)
        row = (older[key] if key in older else table.get(key)) or NOTHING
        table.throughput.read(key[0], read_units(row.size, consistent=consistent))
        return row

    def query(self, call: Call) -> dict[str, Any]:
        """Query."""
        source = self._source(call)
        line, bounds = key_conditions.asked(source.schema, call.parameters)
        return self._page(call, source, line, lambda: reads.query(source, line, bounds, call.parameters))

    def scan(self, call: Call) -> dict[str, Any]:
        """Scan."""
        source = self._source(call)
        return self._page(call, source, None, lambda: reads.scan(source, call.parameters))

    def _source(self, call: Call) -> reads.Source:
        """The table or index that a query or a scan asks for, as this read sees it."""
        parameters = call.parameters
        _check_is_played(parameters)
        table = self.table(parameters["TableName"])
        consistent = parameters.get("ConsistentRead", False)
        index = None
        if "IndexName" in parameters:
            index = table.indexes.get(parameters["IndexName"])
            if index is None:
                raise invalid(f"The table does not have the specified index: {parameters['IndexName']}")
            if consistent:
                raise invalid("Consistent reads are not supported on global secondary indexes")
        reads.check_placeholders(parameters)
        return reads.Source(table, index, {} if consistent else self._older(table))

    def _page(self, call: Call, source: reads.Source, line: Any, read: Callable[[], reads.Page]) -> dict[str, Any]:
        parameters, table, index = call.parameters, source.table, source.index
        throughput = table.throughput if index is None else table.throughput_of(index.name)
        lacking = throughput.may_read(self.box.timeline.now, line)
        if lacking:
            raise throttled("Table" if index is None else "Index", lacking, "Read", table.arn)
        page = read()
        throughput.read(line, read_units(page.bytes, consistent=parameters.get("ConsistentRead", False)))
        answer: dict[str, Any] = {"Count": len(page.items), "ScannedCount": page.scanned}
        answer["Items"] = [reads.projected(item, parameters) for item in page.items]
        if page.last is not None:
            answer["LastEvaluatedKey"] = page.last
        return answer

    def _older(self, table: Table) -> dict[Key, Row | None]:
        """What an eventual read sees otherwise than a consistent one: most often nothing."""
        if not table.recent or self.box.chance.random() < limits.FRESH_SHARE:
            return {}
        return table.before(self.box.timeline.now, self.box.chance.randint(1, limits.STALE_WRITES_MAX))


def _check_is_played(parameters: Mapping[str, Any]) -> None:
    """Raise UnplayedError for a parameter that the shipped code never gives."""
    if unplayed := parameters.keys() - PLAYED:
        raise UnplayedError(f"the box does not play {', '.join(sorted(unplayed))}")


def _arn(name: str) -> str:
    return name if name.startswith("arn:") else f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}"

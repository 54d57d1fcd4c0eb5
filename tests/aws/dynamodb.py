"""DynamoDB: the operations on items that the shipped code uses, on tables that the template declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.aws import limits, reads
from tests.aws.attributes import Item, invalid, read_units
from tests.aws.box import ACCOUNT, REGION, Box, Call, Service
from tests.aws.faults import ApiError
from tests.aws.tables import Key, Row, Table
from tests.aws.transactions import CONFLICT, Transactions
from tests.aws.writes import Intent, intent_of, returned

ACTIONS = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem", "ConditionCheck": "ConditionCheckItem"}


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
            case "BatchGetItem" | "BatchWriteItem":
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
        intent = self.intent(kind, call.parameters)
        if intent.key in intent.table.held:
            raise ApiError("TransactionConflictException", CONFLICT)
        now = self.box.timeline.now
        try:
            intent.evaluate()
        except ApiError:
            self.admit(intent, 1)
            self.charge(intent, 1)
            raise
        self.admit(intent, 1)
        self.charge(intent, 1)
        intent.commit(now)
        answer: dict[str, Any] = {}
        attributes = returned(intent)
        if attributes:
            answer["Attributes"] = attributes
        if "ReturnConsumedCapacity" in call.parameters:
            self._tell_capacity(answer, call, {intent.table.name: self._written(intent, 1)})
        return answer

    def intent(self, kind: str, parameters: Mapping[str, Any]) -> Intent:
        """Check one write as far as that goes without its row."""
        return intent_of(self.table(parameters["TableName"]), kind, parameters)

    def admit(self, intent: Intent, factor: int) -> None:
        """Raise DynamoDB's throttling error if the write asks for more than table, key or indexes give."""
        now, table = self.box.timeline.now, intent.table
        lacking = table.throughput.may_write(now, intent.key[0], factor * intent.units())
        if lacking:
            raise _throttled("Table", lacking, "Write", table.arn)
        if table.indexes:
            for name, (place, units) in intent.index_units().items():
                lacking = table.throughput_of(name).may_write(now, place[0], units)
                if lacking:
                    raise _throttled("Index", lacking, "Write", f"{table.arn}/index/{name}")

    def charge(self, intent: Intent, factor: int) -> None:
        """Take the units that `admit` granted."""
        intent.table.throughput.write(intent.key[0], factor * intent.units())
        if intent.table.indexes:
            for name, (place, units) in intent.index_units().items():
                intent.table.throughput_of(name).write(place[0], units)

    def _written(self, intent: Intent, factor: int) -> float:
        return float(factor * intent.units() + sum(units for _, units in intent.index_units().values()))

    # Transactions and batches.

    def transact_write_items(self, call: Call) -> dict[str, Any]:
        """TransactWriteItems."""
        intents = self._transactions.write(call)
        answer: dict[str, Any] = {}
        if "ReturnConsumedCapacity" in call.parameters:
            units: dict[str, float] = {}
            for intent in intents:
                units[intent.table.name] = units.get(intent.table.name, 0.0) + self._written(intent, 2)
            self._tell_capacity(answer, call, units)
        return answer

    def batch_write_item(self, call: Call) -> dict[str, Any]:
        """BatchWriteItem: each write on its own; what meets throttling or a transaction comes back unprocessed."""
        intents = []
        for name, requests in call["RequestItems"].items():
            for request in requests:
                ((kind, write),) = request.items()
                intents.append((name, request, self.intent(kind.removesuffix("Request"), {**write, "TableName": name})))
        if len(intents) > limits.BATCH_WRITE_ITEMS_MAX:
            raise invalid("Too many items requested for the BatchWriteItem call")
        if len({(intent.table.name, intent.key) for _, _, intent in intents}) != len(intents):
            raise invalid("Provided list of item keys contains duplicates")
        spoiled = self.box.accidents.spoiled(call, len(intents))
        left: dict[str, list[Any]] = {}
        for place, (name, request, intent) in enumerate(intents):
            if place in spoiled or intent.key in intent.table.held or not self._write_of_batch(intent):
                left.setdefault(name, []).append(request)
        if sum(map(len, left.values())) == len(intents) and not spoiled:
            raise _throttled("Table", "KeyRange", "Write", intents[0][2].table.arn)
        return {"UnprocessedItems": left}

    def _write_of_batch(self, intent: Intent) -> bool:
        intent.evaluate()
        try:
            self.admit(intent, 1)
        except ApiError:
            return False
        self.charge(intent, 1)
        intent.commit(self.box.timeline.now)
        return True

    def batch_get_item(self, call: Call) -> dict[str, Any]:
        """BatchGetItem: what does not fit into 16 MB, or meets throttling, comes back unprocessed."""
        wanted = [
            (name, request, self.table(name), given)
            for name, request in call["RequestItems"].items()
            for given in request["Keys"]
        ]
        if len(wanted) > limits.BATCH_GET_KEYS_MAX:
            raise invalid("Too many items requested for the BatchGetItem call")
        keys = [table.key(given) for _, _, table, given in wanted]
        if len({(entry[0], key) for entry, key in zip(wanted, keys, strict=True)}) != len(keys):
            raise invalid("Provided list of item keys contains duplicates")
        spoiled = self.box.accidents.spoiled(call, len(wanted))
        found: dict[str, list[Item]] = {name: [] for name in call["RequestItems"]}
        left: dict[str, dict[str, Any]] = {}
        total, units = 0, dict.fromkeys(found, 0.0)
        for place, ((name, request, table, given), key) in enumerate(zip(wanted, keys, strict=True)):
            row = None if place in spoiled else self._read(table, key, request.get("ConsistentRead", False), units)
            size = 0 if row is None or row is NOTHING else row.size
            if row is None or total + size > limits.BATCH_GET_BYTES_MAX:
                left.setdefault(name, {**request, "Keys": []})["Keys"].append(given)
            elif row is not NOTHING:
                total += size
                found[name].append(reads.projected(row.item, request))
        if sum(len(each["Keys"]) for each in left.values()) == len(wanted) and not spoiled:
            raise _throttled("Table", "KeyRange", "Read", wanted[0][2].arn)
        answer: dict[str, Any] = {"Responses": found, "UnprocessedKeys": left}
        self._tell_capacity(answer, call, units)
        return answer

    # Reads.

    def get_item(self, call: Call) -> dict[str, Any]:
        """GetItem."""
        parameters = call.parameters
        table = self.table(parameters["TableName"])
        units = {table.name: 0.0}
        row = self._read(table, table.key(parameters["Key"]), parameters.get("ConsistentRead", False), units)
        if row is None:
            raise _throttled("Table", "KeyRange", "Read", table.arn)
        answer: dict[str, Any] = {}
        if row is not NOTHING:
            answer["Item"] = reads.projected(row.item, parameters)
        if "ReturnConsumedCapacity" in parameters:
            self._tell_capacity(answer, call, units)
        return answer

    def _read(self, table: Table, key: Key, consistent: bool, units: dict[str, float]) -> Row | None:
        """The row, NOTHING where there is none, or None when it is throttled."""
        now = self.box.timeline.now
        if table.throughput.may_read(now, key[0]):
            return None
        older = {} if consistent else self._older(table)
        row = (older[key] if key in older else table.get(key)) or NOTHING
        cost = read_units(row.size, consistent=consistent)
        table.throughput.read(key[0], cost)
        units[table.name] += cost
        return row

    def query(self, call: Call) -> dict[str, Any]:
        """Query."""
        return self._page(call, reads.query)

    def scan(self, call: Call) -> dict[str, Any]:
        """Scan."""
        return self._page(call, reads.scan)

    def _page(self, call: Call, read: Any) -> dict[str, Any]:
        parameters = call.parameters
        table = self.table(parameters["TableName"])
        consistent = parameters.get("ConsistentRead", False)
        index, throughput = None, table.throughput
        if "IndexName" in parameters:
            index = table.indexes.get(parameters["IndexName"])
            if index is None:
                raise invalid(f"The table does not have the specified index: {parameters['IndexName']}")
            if consistent:
                raise invalid("Consistent reads are not supported on global secondary indexes")
            throughput = table.throughput_of(index.name)
        reads.check_placeholders(parameters)
        source = reads.Source(table, index, {} if consistent else self._older(table))
        line = reads.line_of(source, parameters)
        lacking = throughput.may_read(self.box.timeline.now, line)
        if lacking:
            raise _throttled("Table" if index is None else "Index", lacking, "Read", table.arn)
        page = read(source, parameters)
        units = read_units(page.bytes, consistent=consistent)
        throughput.read(line, units)
        answer: dict[str, Any] = {"Count": len(page.items), "ScannedCount": page.scanned}
        if parameters.get("Select") != "COUNT":
            answer["Items"] = [reads.projected(item, parameters) for item in page.items]
        if page.last is not None:
            answer["LastEvaluatedKey"] = page.last
        if "ReturnConsumedCapacity" in parameters:
            self._tell_capacity(answer, call, {table.name: units})
        return answer

    def _older(self, table: Table) -> dict[Key, Row | None]:
        """What an eventual read sees otherwise than a consistent one: most often nothing."""
        if not table.recent or self.box.chance.random() < limits.FRESH_SHARE:
            return {}
        return table.before(self.box.timeline.now, self.box.chance.randint(1, limits.STALE_WRITES_MAX))

    @staticmethod
    def _tell_capacity(answer: dict[str, Any], call: Call, units: Mapping[str, float]) -> None:
        wanted = call.parameters.get("ReturnConsumedCapacity", "NONE")
        if wanted == "NONE":
            return
        told: list[dict[str, Any]] = [{"TableName": name, "CapacityUnits": cost} for name, cost in units.items()]
        if wanted == "INDEXES":
            for each in told:
                each["Table"] = {"CapacityUnits": each["CapacityUnits"]}
        many = call.operation in ("BatchGetItem", "BatchWriteItem", "TransactWriteItems")
        answer["ConsumedCapacity"] = told if many else told[0]


NOTHING = Row({}, 0)


def _arn(name: str) -> str:
    return name if name.startswith("arn:") else f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{name}"


def _throttled(what: str, scope: str, how: str, arn: str) -> ApiError:
    """A key range that is too hot is told in the words of provisioned tables, a whole table on demand in its own."""
    hot = scope == "KeyRange"
    reason = f"{what}{how}{'KeyRangeThroughputExceeded' if hot else 'AccountLimitExceeded'}"
    return ApiError(
        "ProvisionedThroughputExceededException" if hot else "ThrottlingException",
        "Throughput exceeds the current capacity of your table or index.",
        {"ThrottlingReasons": [{"reason": reason, "resource": arn}]},
    )

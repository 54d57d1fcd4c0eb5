"""A box with one table, a few queues, a bucket and a delivery stream: what the tests of the services need."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.aws.account import Keepers
from tests.aws.box import ADMINISTRATOR, Box, Call, Caller
from tests.aws.faults import Accidents, Kind
from tests.aws.limits import LARGE_REGION, QuotaPlace
from tests.aws.service_model import model_of
from tests.aws.solo_timeline import SoloTimeline

ROWS: dict[str, Any] = {
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
        {"AttributeName": "keeper", "AttributeType": "S"},
        {"AttributeName": "due", "AttributeType": "N"},
    ],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "keepers",
            "KeySchema": [{"AttributeName": "keeper", "KeyType": "HASH"}, {"AttributeName": "due", "KeyType": "RANGE"}],
            "Projection": {"ProjectionType": "ALL"},
        }
    ],
    "StreamSpecification": {"StreamViewType": "NEW_AND_OLD_IMAGES"},
    "TimeToLiveSpecification": {"AttributeName": "ttl", "Enabled": True},
}
ORDERED = {"FifoQueue": True, "VisibilityTimeout": 30}
FAST = {**ORDERED, "DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}


@dataclass
class Scripted:
    """Accidents in the order in which they are to happen, one for each call; and which entries of batches fail."""

    strikes: list[Kind] = field(default_factory=list)
    entries: Collection[int] = ()

    def strike(self, call: Call) -> Kind | None:
        return self.strikes.pop(0) if self.strikes else None

    def spoiled(self, call: Call, count: int) -> Collection[int]:
        return [place for place in self.entries if place < count]


def scripted(*kinds: Kind, entries: Collection[int] = ()) -> Scripted:
    """Accidents of these kinds, one after another."""
    return Scripted(list(kinds), entries)


class SmallAccount(Keepers):
    """The box and what is in it."""

    def __init__(
        self,
        accidents: Accidents | None = None,
        seed: int = 1,
        time: SoloTimeline | None = None,
        place: QuotaPlace = LARGE_REGION,
    ) -> None:
        self.time = time or SoloTimeline()
        super().__init__(Box(self.time, None, accidents, seed, place))
        self.rows = self.dynamodb.create("rows", ROWS)
        self.ordered = self.sqs.create("ordered.fifo", ORDERED)
        self.fast = self.sqs.create("fast.fifo", FAST)
        self.plain = self.sqs.create("plain", {})
        self.s3.create("bucket")
        self.delivery = self.firehose.create("delivery")

    def client(self, service: str, config: Any = None) -> Any:
        """A client of an administrator."""
        return self.box.client(service, ADMINISTRATOR, config)

    def at_once(self, service: str, method: str, **parameters: Any) -> dict[str, Any]:
        """Let a service act at this very instant, as it would on a request that has just arrived."""
        operation = model_of(service).operations[method]
        call = Call(Caller(ADMINISTRATOR), service, operation.name, parameters, self.time.now)
        answer: dict[str, Any] = getattr(self.box.services[service], method)(call)
        return answer


def code_of(call: Callable[[], Any]) -> str:
    """The code of the error that *call* ends with."""
    with pytest.raises(ClientError) as caught:
        call()
    return caught.value.response["Error"]["Code"]


def item(sk: str, pk: str = "p", **more: Any) -> dict[str, Any]:
    """An item of the table `rows`; texts and numbers in *more* get their types."""
    typed = {name: {"N": str(value)} if isinstance(value, int) else {"S": value} for name, value in more.items()}
    return {"pk": {"S": pk}, "sk": {"S": sk}, **typed}


def key(sk: str, pk: str = "p") -> dict[str, Any]:
    """A key of the table `rows`."""
    return {"pk": {"S": pk}, "sk": {"S": sk}}

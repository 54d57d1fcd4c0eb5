"""The same calls in two worlds: the box, and the engine of the local stack, which is somebody else's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from botocore.exceptions import ClientError

from local.engine.engine import Engine
from tests.aws.box import ADMINISTRATOR
from tests.aws.small_account import ROWS, SmallAccount

_CREATED = ("AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")


class BoxWorld:
    """The box; each case has one of its own, and its time is virtual."""

    def __init__(self) -> None:
        self.account = SmallAccount()

    def client(self, service: str) -> Any:
        return self.account.box.client(service, ADMINISTRATOR)

    def queue(self, name: str, **attributes: str) -> str:
        properties = {
            key: value == "true" if value in ("true", "false") else value for key, value in attributes.items()
        }
        return self.account.sqs.create(name, properties).url


class EngineWorld:
    """The engine of the local stack before real clients."""

    def __init__(self, engine: Engine) -> None:
        self.client = engine.client
        client = engine.client("dynamodb")
        client.create_table(TableName="rows", BillingMode="PAY_PER_REQUEST", **{name: ROWS[name] for name in _CREATED})
        engine.client("s3").create_bucket(Bucket="bucket")

    def queue(self, name: str, **attributes: str) -> str:
        """Make a queue and answer its URL."""
        url: str = self.client("sqs").create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        return url


World = BoxWorld | EngineWorld
"""A place that answers calls of AWS; it has the table `rows`, the bucket `bucket` and what a case asks for."""
Case = Callable[[World], Any]
"""Makes calls and answers what is to be the same everywhere."""


@contextmanager
def engine_world(folder: Path) -> Iterator[World]:
    """The engine as a process of its own; it plays no functions here."""
    engine = Engine(folder, "127.0.0.1:9")
    engine.start()
    try:
        yield EngineWorld(engine)
    finally:
        engine.stop()


def seen(case: Case, world: World) -> Any:
    """What *case* observes in *world*; an error is its code, a cancelled transaction also the codes of its reasons."""
    try:
        return case(world)
    except ClientError as error:
        response: Any = error.response
        reasons = response.get("CancellationReasons")
        code = response["Error"]["Code"]
        return code if reasons is None else [code, *(reason["Code"] for reason in reasons)]


def refusal(call: Callable[..., Any], **parameters: Any) -> str:
    """The code of the error that a call ends with, or "done"."""
    try:
        call(**parameters)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "done"


def refused(call: Case) -> Case:
    """Return the case that answers the code of the error that *call* ends with, or "done"."""
    return lambda world: refusal(lambda: call(world))


class Cases(dict[str, Case]):
    """Cases by name."""

    def case(self, act: Case) -> Case:
        """Add a case: a decorator."""
        self[act.__name__] = act
        return act

    def compare(
        self, name: str, engine: World, differences: Mapping[str, tuple[Any, str]] = MappingProxyType({})
    ) -> None:
        """See that the engine answers as the box does, or with its difference."""
        here, there = seen(self[name], BoxWorld()), seen(self[name], engine)
        assert there == differences.get(name, (here, ""))[0]
        assert (there != here) == (name in differences)

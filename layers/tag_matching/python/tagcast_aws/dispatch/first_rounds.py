"""First rounds in other processes, on Lambda: the queue's consumer, invoked with an event of the queue."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError, ConnectTimeoutError, EndpointConnectionError
from tagcast.errors import UnavailableError
from tagcast.queues import QueueEntry, entry_text

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_lambda import LambdaClient
    from tagcast.ports import Executor

ANSWER_S = 55
"""A first round of one entry is over by then, whoever hangs; and who waits for it is not killed before it can tell."""
_NOT_CONNECTED = (ConnectTimeoutError, EndpointConnectionError)


class LambdaFirstRounds:
    """The port ``FirstRounds``: the function's own handler in another environment, with one record of the queue.

    *make_client* returns a client that tries once and waits ANSWER_S; it is needed for wide messages only.
    """

    def __init__(
        self, make_client: Callable[[], LambdaClient], function: str, executor: Executor, logger: Logger
    ) -> None:
        self._make_client = make_client
        self._function = function
        self._executor = executor
        self._logger = logger

    async def make(self, entry: QueueEntry) -> bool:
        """Invoke the function and wait for its end; what Lambda refuses was not begun."""
        return await self._executor.run(partial(self._invoke, json.dumps(event_of(entry)).encode()))

    def _invoke(self, event: bytes) -> bool:
        try:
            answer = self._make_client().invoke(
                FunctionName=self._function, InvocationType="RequestResponse", Payload=event
            )
            payload = answer["Payload"].read()
        except ClientError as error:
            return self._refused(error)
        except _NOT_CONNECTED as error:
            return self._failed(type(error).__name__)
        except BotoCoreError as error:
            raise UnavailableError(f"no answer from {self._function}: {type(error).__name__}") from error
        if "FunctionError" in answer:
            return self._failed(answer["FunctionError"])
        failed = json.loads(payload)["batchItemFailures"]
        return self._failed("reported") if failed else True

    def _refused(self, error: ClientError) -> bool:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise UnavailableError(f"{self._function} may have been invoked") from error
        return self._failed(error.response["Error"]["Code"])

    def _failed(self, why: str) -> bool:
        self._logger.warning("a section is not served elsewhere", extra={"error": why})
        return False


def event_of(entry: QueueEntry) -> dict[str, Any]:
    """Return the event with which the queue would bring *entry* alone; nothing can be done with its receipt.

    >>> record = event_of(QueueEntry("t", "1", "g", section=2))["Records"][0]
    >>> record["messageId"], record["attributes"]
    ('1#2-everybody', {'MessageGroupId': 'g'})
    """
    record = {
        "messageId": entry.deduplication_id,
        "receiptHandle": "",
        "body": entry_text(entry),
        "attributes": {"MessageGroupId": entry.group},
        "eventSource": "aws:sqs",
    }
    return {"Records": [record]}

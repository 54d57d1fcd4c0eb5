"""Where the implementations differ from AWS or from each other: docs/RELIABILITY.md, Other implementations of AWS.

Each difference is a test, so that a new version that has it no more is noticed, and what is done here because of it
goes.
"""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.second_opinion.deployed import Deployment

pytestmark = pytest.mark.timeout(600)
UPDATE = 'UPDATE "{table}" SET "a"=? SET "b"=? REMOVE "c" WHERE "pk"=? AND "sk"=?'


@pytest.mark.nightly
@pytest.mark.parametrize("aws", ["moto", "others"], indirect=True)
def test_neither_reads_the_statements_of_partiql_that_aws_documents(aws: Deployment) -> None:
    table = aws.resolver.name_of("MessagesTable")
    statement = {"Statement": UPDATE.format(table=table), "Parameters": [{"S": each} for each in "1234"]}
    with pytest.raises((AssertionError, ClientError)):
        aws.aws.plain_client("dynamodb").batch_execute_statement(Statements=[statement])


@pytest.mark.parametrize(
    ("aws", "given"),
    [pytest.param(name, given, marks=pytest.mark.nightly) for name, given in (("moto", []), ("others", ["second"]))],
    indirect=["aws"],
)
def test_what_may_be_given_of_a_fifo_group_while_an_earlier_entry_is_in_flight(
    aws: Deployment, given: list[str]
) -> None:
    """AWS gives nothing: FIFO-queues-understanding-logic.html. LocalStack gives what was given back behind it."""
    sqs = aws.aws.plain_client("sqs")
    queue = sqs.create_queue(QueueName=f"{aws.stack}-x.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    for name in ("first", "second"):
        sqs.send_message(QueueUrl=queue, MessageBody=name, MessageGroupId="g", MessageDeduplicationId=name)
    received = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    assert [message["Body"] for message in received] == ["first", "second"]

    handle: dict[str, Any] = {"ReceiptHandle": received[1]["ReceiptHandle"], "VisibilityTimeout": 0}
    sqs.change_message_visibility(QueueUrl=queue, **handle)

    again = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
    assert [message["Body"] for message in again] == given

"""What judges the requests of the stories finds each kind of fault that a model can name."""

from typing import Any, cast

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.config import Config

from tests.aws.service_model import model_of
from tests.second_opinion.model_check import Recorder, compiled, faults

USED = ("dynamodb", "events", "firehose", "kms", "lambda", "s3", "secretsmanager", "sqs", "stepfunctions")
KEY = {"pk": {"S": "a"}, "sk": {"S": "b"}}
MACHINE = "arn:aws:states:us-east-1:123456789012:stateMachine:m"


@pytest.mark.parametrize(
    ("service", "operation", "parameters", "word"),
    [
        ("dynamodb", "get_item", {"TableName": "t"}, 'Missing required parameter in input: "Key"'),
        ("dynamodb", "get_item", {"TableName": "t", "Key": KEY, "Consistent": True}, "Unknown parameter in input"),
        ("dynamodb", "get_item", {"TableName": "t", "Key": {"pk": {"S": 1}}}, "Invalid type for parameter Key.pk.S"),
        ("dynamodb", "get_item", {"TableName": "t" * 1025, "Key": KEY}, "TableName: length 1025, at most 1024"),
        ("dynamodb", "query", {"TableName": "t", "Select": "SOME"}, "Select: 'SOME' is none of ALL_ATTRIBUTES"),
        ("dynamodb", "transact_write_items", {"TransactItems": [{}] * 101}, "TransactItems: length 101, at most 100"),
        ("dynamodb", "batch_execute_statement", {"Statements": []}, "Invalid length for parameter Statements"),
        ("firehose", "put_record_batch", {"DeliveryStreamName": "a b", "Records": [{"Data": b"x"}]}, "is not like"),
        ("stepfunctions", "start_execution", {"stateMachineArn": MACHINE, "name": "n" * 81}, "name: length 81"),
        ("kms", "encrypt", {"KeyId": "k", "Plaintext": b"x" * 4097}, "Plaintext: length 4097, at most 4096"),
    ],
)
def test_each_kind_of_fault_is_found(service: str, operation: str, parameters: dict[str, Any], word: str) -> None:
    found = faults(model_of(service).operations[operation].model, parameters)
    assert any(word in fault for fault in found), found


def test_a_request_that_the_model_takes_has_no_fault() -> None:
    assert faults(model_of("dynamodb").operations["get_item"].model, {"TableName": "ttt", "Key": KEY}) == []


def test_every_pattern_of_the_services_that_we_use_can_be_judged() -> None:
    for service in USED:
        model = model_of(service).service
        for name in model.shape_names:
            pattern = model.shape_for(name).metadata.get("pattern")
            if pattern is not None:
                compiled(pattern)


def test_a_request_is_judged_although_production_does_not_validate() -> None:
    recorder = Recorder()
    client = boto3.client("kms", config=Config(parameter_validation=False))
    client.meta.events.register("before-send", lambda **_: AWSResponse("", 200, cast("Any", {}), _Empty()))
    recorder.follow(client)

    client.encrypt(KeyId="k", Plaintext=b"x" * 4097)

    assert recorder.asked == {"kms:Encrypt": 1}
    assert recorder.wrong == ["kms:Encrypt: Plaintext: length 4097, at most 4096"]


class _Empty:
    def stream(self, **_: Any) -> list[bytes]:
        return [b"{}"]

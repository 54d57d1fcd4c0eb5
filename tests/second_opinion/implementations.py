"""Somebody else's AWS: implementations of its services that we neither wrote nor patched.

- `moto`: all services in this process, as the lock has it. Its Step Functions interpret the workflow.
- `others`: DynamoDB, KMS, Secrets Manager and EventBridge of roto, which is written in Rust; SQS, Step Functions, S3
  and Firehose of LocalStack, whose providers of these need no container. Both are in `.venv-second`.

Lambda is played by ours in both. Two things they lack, and are made good for here:

- moto's PartiQL knows one SET or one REMOVE in a statement, roto has none: a batch of statements is carried out as the
  UpdateItem requests that they stand for.
- roto has no streams: changes of its tables are found by reading them again (`sources.ScannedChanges`).
"""

import json
import os
import subprocess
import time
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from botocore.exceptions import ClientError
from moto import mock_aws
from tagcast_aws.runtime.aws_clients import with_plain_rows

from local.engine.engine import free_port
from local.engine.statements import read
from tests.aws.stack import ACCOUNT, REGION
from tests.second_opinion.lambdas import LambdaApi
from tests.second_opinion.model_check import Recorder

ROOT = Path(__file__).parents[2]
SECOND = ROOT / ".venv-second" / "bin"
BY_ROTO = ("dynamodb", "events", "kms", "secretsmanager")
BY_LOCALSTACK = ("firehose", "s3", "sqs", "stepfunctions")
KEYS = ("pk", "sk")


@dataclass
class Implementation:
    """One of them, with what its clients asked."""

    name: str
    urls: Mapping[str, str]
    lambdas: LambdaApi
    has_streams: bool
    recorder: Recorder = field(default_factory=Recorder)

    def client(self, service: str, **how: Any) -> Any:
        """Return a client as the functions make them; it has the shape of `boto3.client`."""
        made = self.plain_client(service, **how)
        self.recorder.follow(made)
        if service == "dynamodb":
            with_plain_rows(made)
            carry_out = partial(_carry_out, self.plain_client(service))
            made.meta.events.register("before-call.dynamodb.BatchExecuteStatement", carry_out)
        return made

    def plain_client(self, service: str, **how: Any) -> Any:
        """Return a client that nobody listens to, for what the tests do themselves."""
        how.setdefault("region_name", REGION)
        # LocalStack takes an access key of twelve digits for the account.
        return boto3.client(  # type: ignore[call-overload]
            service,
            endpoint_url=self.urls.get(service),
            aws_access_key_id=ACCOUNT,
            aws_secret_access_key="nothing",
            **{"config": Config(retries={"total_max_attempts": 2})} | how,
        )


def _carry_out(client: Any, params: Mapping[str, Any], **_: Any) -> tuple[AWSResponse, dict[str, Any]]:
    """Carry out a batch of statements as updates, one by one; botocore takes what is returned for the answer."""
    responses: list[dict[str, Any]] = []
    for statement in json.loads(params["body"])["Statements"]:
        update = read(statement["Statement"])
        assert update is not None, statement
        try:
            client.update_item(**_with_bytes(update.update_item(KEYS, statement["Parameters"])))
        except ClientError as error:
            code = str(error.response["Error"]["Code"]).removesuffix("Exception")
            responses.append({"Error": {"Code": code, "Message": "refused"}})
        else:
            responses.append({"TableName": update.table})

    return AWSResponse("", 200, cast("Any", {}), None), {
        "Responses": responses,
        "ResponseMetadata": {"HTTPStatusCode": 200},
    }


def _with_bytes(part: Any) -> Any:
    """Return a part of a request with its bytes decoded: in JSON they are base64 text."""
    if isinstance(part, list):
        return [_with_bytes(each) for each in part]
    if not isinstance(part, dict):
        return part
    if part.keys() == {"B"} and isinstance(part["B"], str):
        return {"B": b64decode(part["B"])}
    return {name: _with_bytes(each) for name, each in part.items()}


@contextmanager
def moto(lambdas: LambdaApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[Implementation]:
    """All of moto, in this process. Its interpreter finds Lambda as an SDK does."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", lambdas.url)
    with mock_aws(config={"stepfunctions": {"execute_state_machine": True}}):
        yield Implementation("moto", {"lambda": lambdas.url}, lambdas, has_streams=True)


@contextmanager
def others(lambdas: LambdaApi, folder: Path) -> Iterator[Implementation]:
    """Roto and LocalStack as processes of their own, until the block ends."""
    roto, localstack = free_port(), free_port()
    started = [
        _start(
            folder / "roto.log",
            [SECOND / "roto-server", "--ephemeral", "--port", roto, "--account-id", ACCOUNT],
            {},
        ),
        _start(
            folder / "localstack.log",
            [SECOND / "python", ROOT / "tests/second_opinion/localstack_server.py"],
            {
                "SERVICES": ",".join((*BY_LOCALSTACK, "events", "lambda", "sts")),
                "EAGER_SERVICE_LOADING": "0",
                "GATEWAY_LISTEN": f"127.0.0.1:{localstack}",
                "DISABLE_EVENTS": "1",
                "SKIP_SSL_CERT_DOWNLOAD": "1",
                "FILESYSTEM_ROOT": str(folder / "localstack"),
                "LAMBDA_URL": lambdas.url,
            },
        ),
    ]
    urls = dict.fromkeys(BY_ROTO, f"http://127.0.0.1:{roto}")
    urls |= dict.fromkeys(BY_LOCALSTACK, f"http://127.0.0.1:{localstack}")
    try:
        _wait(lambda: "listening on" in (folder / "roto.log").read_text(), started)
        _wait(lambda: "Ready." in (folder / "localstack.log").read_text(), started)
        yield Implementation("others", {**urls, "lambda": lambdas.url}, lambdas, has_streams=False)
    finally:
        for process in started:
            process.kill()  # LocalStack waits for what it began; nothing of it is kept.
            process.wait(20)


def _start(log: Path, command: list[Any], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with log.open("wb") as written:
        return subprocess.Popen(
            list(map(str, command)),
            stdout=written,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": "", **environment},
            cwd=log.parent,
        )


def _wait(ready: Callable[[], bool], processes: list[subprocess.Popen[bytes]], within_s: float = 300) -> None:
    until = time.monotonic() + within_s
    while not ready():
        assert all(process.poll() is None for process in processes), "an implementation did not start"
        assert time.monotonic() < until, "an implementation is not ready in time"
        time.sleep(0.2)

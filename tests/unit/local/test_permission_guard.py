"""The guard before the engine: who is refused, what is let through, and what is written down."""

import asyncio
import json
import threading
import tracemalloc
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from local.engine.aws_request import Request
from local.engine.engine_process import Executions, guard_delivery, guard_task
from local.engine.http_server import guard_browsers
from local.engine.permission_guard import OWN_PATH, PermissionGuard, Permissions
from local.functions.plain_server import Response
from local.rules.needs import Account
from local.rules.permissions import Grant, Need, Role

OWNER = "OWNER"
UPDATE = {"Statement": 'UPDATE "T" SET "n"=? WHERE "pk"=?'}
ACCOUNT = Account("123456789012", "us-east-1")
TABLE = "arn:aws:dynamodb:us-east-1:123456789012:table/T"
READER = Role("Reader", (Grant("dynamodb:GetItem", TABLE), Grant("s3:GetObject", "arn:aws:s3:::b/*")))
LISTER = Role("Lister", (*READER.grants, Grant("s3:ListBucket", "arn:aws:s3:::b")))


@dataclass
class Engine:
    """A handler that remembers what came through and answers one status."""

    status: int = 200
    bodies: list[bytes] = field(default_factory=list)

    async def __call__(self, request: Request) -> Response:
        self.bodies.append(request.body)
        return Response(self.status, body=b"engine")


def credential(key: str, service: str) -> str:
    return f"AWS4-HMAC-SHA256 Credential={key}/20260101/us-east-1/{service}/aws4_request, SignedHeaders=h"


@dataclass
class Gate:
    """A guard and a way to call through it."""

    guard: Any
    engine: Engine
    uses: Path

    def call(
        self, key: str, service: str, target: str = "", body: object = None, path: str = "/", method: str = "POST"
    ) -> tuple[int, bytes]:
        headers = {"authorization": credential(key, service), "x-amz-target": target}
        return self.send(headers, json.dumps(body or {}).encode(), path, method)

    def send(self, headers: dict[str, str], body: bytes, path: str, method: str, query: str = "") -> tuple[int, bytes]:
        found: Response = asyncio.run(self.guard(Request(method, path, query, headers, body)))
        return found.status, found.body

    def written(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.uses.read_text().splitlines()]


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    engine = Engine()
    permissions = Permissions(ACCOUNT, tmp_path / "uses.jsonl")
    permissions.put({"R": asdict(READER), "L": asdict(LISTER)})
    return Gate(
        PermissionGuard(engine, permissions, OWNER, lambda: False, {"roles": permissions.put}),
        engine,
        tmp_path / "uses.jsonl",
    )


def test_what_a_role_may_do_reaches_the_engine_with_its_whole_body(gate: Gate) -> None:
    assert gate.call("R", "dynamodb", "DynamoDB_20120810.GetItem", {"TableName": "T"})[0] == 200
    assert gate.engine.bodies == [b'{"TableName": "T"}']


@pytest.mark.parametrize(
    ("target", "body", "action"),
    [
        ("PutItem", {"TableName": "T"}, "PutItem"),
        ("GetItem", {"TableName": "U"}, "GetItem"),
        ("Query", {"TableName": "T", "IndexName": "wake"}, "Query"),
        ("TransactWriteItems", {"TransactItems": [{"ConditionCheck": {"TableName": "T"}}]}, "ConditionCheckItem"),
        (
            "BatchExecuteStatement",
            {"Statements": [UPDATE]},
            "PartiQLUpdate",
        ),
        ("BatchGetItem", {"RequestItems": {"T": {}}}, "BatchGetItem"),
    ],
)
def test_what_a_role_may_not_do_is_access_denied(gate: Gate, target: str, body: object, action: str) -> None:
    status, answer = gate.call("R", "dynamodb", f"DynamoDB_20120810.{target}", body)
    assert (status, json.loads(answer)["__type"]) == (400, "AccessDeniedException")
    assert f"is not authorized to perform: dynamodb:{action} on resource: " in json.loads(answer)["message"]
    assert gate.engine.bodies == []


def test_a_batch_of_messages_needs_what_one_message_needs(gate: Gate) -> None:
    gate.guard.permissions.put({"R": asdict(Role("S", (Grant("sqs:SendMessage", "*"),)))})
    body = {"QueueUrl": "http://127.0.0.1/123456789012/q"}
    assert gate.call("R", "sqs", "AmazonSQS.SendMessageBatch", body)[0] == 200
    assert gate.call("R", "sqs", "AmazonSQS.DeleteMessageBatch", body)[0] == 403


def test_the_owner_of_the_account_may_do_everything(gate: Gate) -> None:
    assert gate.call(OWNER, "dynamodb", "DynamoDB_20120810.DeleteTable", {"TableName": "T"})[0] == 200


@pytest.mark.parametrize(
    ("key", "service", "code"),
    [
        ("local", "dynamodb", b"UnrecognizedClientException"),
        ("owner", "sqs", b"InvalidClientTokenId"),
        ("guess", "s3", b"InvalidAccessKeyId"),
        ("", "s3", b"UnrecognizedClientException"),
        ("states.amazonaws.com", "lambda", b"UnrecognizedClientException"),
    ],
)
def test_a_key_that_the_stack_did_not_issue_is_refused(gate: Gate, key: str, service: str, code: bytes) -> None:
    gate.guard.permissions.put({"states.amazonaws.com": asdict(Role("W", (Grant("*", "*"),)))})
    status, answer = gate.call(key, service, "", {})
    assert (status, code in answer) == (403, True)
    assert gate.engine.bodies == []


@pytest.mark.parametrize(("key", "status"), [("R", 403), ("L", 200), (OWNER, 200), ("local", 403)])
def test_a_presigned_address_may_do_what_its_signer_may(gate: Gate, key: str, status: int) -> None:
    gate.guard.permissions.put({"R": asdict(Role("None", ())), "L": asdict(LISTER)})
    query = f"X-Amz-Credential={key}%2F20260101%2Fus-east-1%2Fs3%2Faws4_request"
    assert gate.send({}, b"", "/b/k", "GET", query)[0] == status


def test_an_absent_object_is_403_to_who_may_not_list_the_bucket_and_404_to_who_may(gate: Gate) -> None:
    gate.engine.status = 404
    refused = gate.call("R", "s3", path="/b/gone", method="GET")
    assert (refused[0], b"<Code>AccessDenied</Code>" in refused[1]) == (403, True)
    assert gate.call("L", "s3", path="/b/gone", method="GET") == (404, b"engine")


def test_every_decision_is_written_down_once_even_after_a_restart(gate: Gate) -> None:
    for _ in range(3):
        gate.call("R", "dynamodb", "DynamoDB_20120810.GetItem", {"TableName": "T"})
        gate.call("R", "dynamodb", "DynamoDB_20120810.PutItem", {"TableName": "T"})
    again = Permissions(ACCOUNT, gate.uses)
    assert again.allows(READER, Need("dynamodb:GetItem", TABLE))
    assert [(line["action"], line["grant"]) for line in gate.written()] == [
        ("dynamodb:GetItem", TABLE),
        ("dynamodb:PutItem", None),
    ]


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (("origin", "https://example.com"), 403),
        (("origin", "http://127.0.0.1:4566"), 403),
        (("sec-fetch-site", "cross-site"), 403),
        (("sec-fetch-site", "same-site"), 403),
        (("sec-fetch-site", "none"), 200),
        (("host", "evil.example:4566"), 403),
        (("host", "127.0.0.1:4566"), 200),
        (("host", "tagcast.test:4566"), 200),
    ],
)
def test_pages_in_a_browser_may_not_call_the_engine(gate: Gate, header: tuple[str, str], status: int) -> None:
    headers = {"host": "localhost:4566", "authorization": credential(OWNER, "sqs"), header[0]: header[1]}
    open_to_browsers = Gate(guard_browsers(gate.guard, 4566, "tagcast.test"), gate.engine, gate.uses)
    assert open_to_browsers.send(headers, b"{}", "/", "POST")[0] == status
    assert bool(gate.engine.bodies) == (status == 200)


def test_roles_are_put_in_force_by_the_stack_alone(gate: Gate) -> None:
    body = json.dumps({"R": asdict(Role(READER.name, (Grant("*", "*"),)))}).encode()
    assert gate.send({}, body, OWN_PATH + "roles", "POST")[0] == 403
    assert gate.call("R", "engine", "", json.loads(body), OWN_PATH + "roles")[0] == 400
    assert gate.call("R", "dynamodb", "DynamoDB_20120810.DeleteTable", {"TableName": "T"})[0] == 400
    assert gate.call(OWNER, "engine", "", json.loads(body), OWN_PATH + "roles")[0] == 204
    assert gate.call("R", "dynamodb", "DynamoDB_20120810.DeleteTable", {"TableName": "T"})[0] == 200


def test_no_more_executions_are_started_than_the_stack_bears(gate: Gate) -> None:
    running = Executions({}, most=1)
    gate.guard.full = lambda: running.full
    started = threading.Event()
    ended = threading.Event()

    def run(execution: str) -> None:
        started.set()
        ended.wait(10)

    thread = threading.Thread(target=running.count_run(run), args=("e",))
    thread.start()
    started.wait(10)
    status, answer = gate.call(OWNER, "states", "AWSStepFunctions.StartExecution", {"name": "e"})
    assert (status, json.loads(answer)["__type"]) == (400, "ExecutionLimitExceeded")
    ended.set()
    thread.join()
    assert gate.call(OWNER, "states", "AWSStepFunctions.StartExecution", {"name": "e"})[0] == 200


def test_a_decision_that_a_full_disk_cut_off_is_dropped(tmp_path: Path) -> None:
    uses = tmp_path / "uses.jsonl"
    need = Need("dynamodb:GetItem", TABLE)
    Permissions(ACCOUNT, uses).allows(READER, need)
    whole = uses.read_text()
    for cut_off in (whole + whole[:20], whole[:20]):
        uses.write_text(cut_off)
        Permissions(ACCOUNT, uses).allows(READER, need)
        assert uses.read_text() == whole


def test_decisions_about_ever_new_objects_take_little_memory(tmp_path: Path) -> None:
    permissions = Permissions(ACCOUNT, tmp_path / "uses.jsonl")
    role = Role("F", (Grant("s3:PutObject", "arn:aws:s3:::b/raw/*"),))
    tracemalloc.start()
    for number in range(10_000):
        assert permissions.allows(role, Need("s3:PutObject", f"arn:aws:s3:::b/raw/{number:0200}"))
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 2 * 1024 * 1024


def test_the_workflow_invokes_what_its_role_may_and_nothing_else(tmp_path: Path) -> None:
    function = "arn:aws:lambda:us-east-1:123456789012:function:retry"
    permissions = Permissions(ACCOUNT, tmp_path / "uses.jsonl")
    role = Role("W", (Grant("lambda:InvokeFunction", function),))
    permissions.put({"states.amazonaws.com": asdict(role)})
    invoke = guard_task(permissions, lambda name, event: "done", lambda name, cause: RuntimeError(name, cause))
    assert invoke(function, {}) == "done"
    with pytest.raises(RuntimeError, match=r"Lambda.AWSLambdaException"):
        invoke(f"{function}-other", {})


def test_firehose_writes_where_its_role_may_and_nowhere_else(tmp_path: Path) -> None:
    permissions = Permissions(ACCOUNT, tmp_path / "uses.jsonl")
    role = Role("F", (Grant("s3:PutObject", "arn:aws:s3:::b/raw/*"),))
    permissions.put({"firehose.amazonaws.com": asdict(role)})
    put: list[str] = []
    deliver = guard_delivery(permissions, lambda bucket, key, body: put.append(key))
    deliver("b", "raw/1", b"")
    deliver("b", "curated/1", b"")
    assert put == ["raw/1"]

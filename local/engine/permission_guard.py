"""Enforces AWS's permissions and size limits in front of the engine.

An access key, which cannot be guessed, identifies the caller; signatures are not checked. Each function has its own
key, for its workers and its event sources. The jobs have a key, and so has the owner: the stack itself, or a person at
the terminal. Other callers are refused. A file stores each new decision, to compare the used permissions with the
granted ones.
"""

import base64
import binascii
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from local.engine.aws_request import (
    Call,
    Handler,
    Request,
    access_denied,
    call_of,
    refusal,
    signer_of,
    unknown_key,
)
from local.engine.last_error import end_process, why_not_written
from local.functions.plain_server import Response
from local.rules import limits
from local.rules.needs import Account, needs_of
from local.rules.permissions import Grant, Need, Role, decide

OWN_PATH = "/_tagcast/"
"""The path of requests to the engine itself, followed by the name of an act."""
TYPE_HEADER = "x-amz-invocation-type"
BY_CONTENT = ("content-length", "x-amz-crc32")
DECISIONS_KEPT = 2_000


@dataclass
class Permissions:
    """Decides what callers may do. The keys of *roles* are access keys, or names of services that assume a role.

    *account* has the resources. New decisions are appended to the file *uses*.
    """

    account: Account
    uses: Path
    roles: dict[str, Role] = field(default_factory=dict)
    _decided: dict[tuple[str, Need], bool] = field(default_factory=dict)
    _kept: set[tuple[str, ...]] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Load the decisions of earlier processes. A last line that a full disk cut off is dropped."""
        if self.uses.exists():
            known = self.uses.read_bytes()
            complete, _, cut_off = known.rpartition(b"\n")
            if cut_off:
                os.truncate(self.uses, len(known) - len(cut_off))
            self._kept = {_mark(json.loads(line)) for line in complete.splitlines()}

    def put(self, roles: Mapping[str, Any]) -> None:
        """Replace all roles. *roles* maps each caller to the fields of its `Role`, as parsed JSON."""
        self._decided.clear()
        self.roles = {
            key: Role(given["name"], tuple(Grant(**each) for each in given["grants"])) for key, given in roles.items()
        }

    def allows(self, role: Role, need: Need) -> bool:
        """Return whether *role* allows *need*, an action on a resource. Store the decision if it is new."""
        place = (role.name, need)
        if place not in self._decided:
            if len(self._decided) >= DECISIONS_KEPT:
                self._decided.clear()
            grant = decide(role.grants, need)
            self._decided[place] = grant is not None
            self._keep(role, need, grant)
        return self._decided[place]

    def first_denied(self, role: Role, call: Call) -> Need | None:
        """Return the first action and resource that *call* needs and *role* denies; None if it denies none."""
        needs = needs_of(self.account, call.service, call.operation, call.parameters)
        return next((need for need in needs if not self.allows(role, need)), None)

    def principal(self, role: Role) -> str:
        """Return the ARN that AWS's errors show for a caller with this role."""
        return f"arn:{self.account.partition}:sts::{self.account.number}:assumed-role/{role.name}/local"

    def _keep(self, role: Role, need: Need, grant: Grant | None) -> None:
        # Only the first resource of each grant is stored.
        line = {
            "role": role.name,
            "action": need.action,
            "resource": need.resource,
            "grant": None if grant is None else grant.resource,
        }
        if _mark(line) in self._kept:
            return
        self._kept.add(_mark(line))
        try:
            with self.uses.open("a") as written:
                written.write(json.dumps(line) + "\n")
        except OSError as fault:
            end_process(why_not_written(fault, self.uses.parent) or f"{self.uses} cannot be written: {fault}")


def _mark(line: Mapping[str, Any]) -> tuple[str, ...]:
    return (line["role"], line["action"], line["grant"] or f"none: {line['resource']}")


@dataclass
class PermissionGuard:
    """A handler in front of *engine*. It refuses calls that *permissions* deny. The access key *owner* may do all.

    *full* returns whether no further execution of a workflow may start. *acts* maps names below :data:`OWN_PATH` to
    functions that get the request's JSON. Only the owner may call these functions.
    """

    engine: Handler
    permissions: Permissions
    owner: str
    full: Callable[[], bool]
    acts: Mapping[str, Callable[[Any], None]]

    async def __call__(self, request: Request) -> Response:
        """Refuse the request, or pass it on."""
        key, service = signer_of(request.headers.get("authorization") or unquote(request.query))
        role = self.permissions.roles.get(key)
        if role is None:
            if key != self.owner:
                return unknown_key(service)
            if (act := self.acts.get(request.path.removeprefix(OWN_PATH))) is not None:
                act(json.loads(request.body or b"{}"))
                return Response(204)
            if not _is_measured(service, request.operation[1]):
                return await self.engine(request)
        call = call_of(service, request)
        is_async = request.headers.get(TYPE_HEADER) == "Event"
        refused = self._refusal(role, call) or too_large(call, len(request.body), is_async)
        if refused is not None:
            return refused
        response = await self.engine(request)
        if response.status == 200 and (call.service, call.operation) == ("dynamodb", "BatchGetItem"):
            body = cut(response.body, call.parameters["RequestItems"])
            headers = tuple(each for each in response.headers if each[0].lower() not in BY_CONTENT)
            return Response(response.status, headers, body)
        denied = self._listing_denial(role, call) if role is not None and response.status == 404 else None
        return denied or response

    def _refusal(self, role: Role | None, call: Call) -> Response | None:
        denied = None if role is None else self.permissions.first_denied(role, call)
        if role is not None and denied is not None:
            return self._denial(role, call.service, denied)
        if call.operation == "StartExecution" and self.full():
            return refusal("states", "ExecutionLimitExceeded", "the local stack cannot run more executions at once")
        return None

    def _denial(self, role: Role, service: str, need: Need) -> Response:
        return access_denied(service, self.permissions.principal(role), need.action, need.resource)

    def _listing_denial(self, role: Role, call: Call) -> Response | None:
        """Return "access denied" instead of S3's "not found" for callers who may not list the bucket; else None."""
        if call.operation not in ("GetObject", "HeadObject"):
            return None
        bucket = f"arn:{self.permissions.account.partition}:s3:::{call.parameters['Bucket']}"
        listing = Need("s3:ListBucket", bucket)
        return None if self.permissions.allows(role, listing) else self._denial(role, "s3", listing)


def _is_measured(service: str, operation: str) -> bool:
    """Return whether the size of a request or its response is checked even for the owner."""
    return service in ("states", "firehose", "lambda") or operation == "BatchGetItem"


def too_large(call: Call, body_bytes: int, is_async: bool = False) -> Response | None:
    """Return the error response if a call is larger than AWS allows; else None. *body_bytes* is the size of its body.

    *is_async* says whether a call of Invoke is asynchronous. AWS has another limit for asynchronous calls.

    >>> too_large(Call("stepfunctions", "StartExecution", {"input": "x" * 262_145}), 0).status
    400
    >>> too_large(Call("lambda", "Invoke"), 6 * 1024 * 1024) is None
    True
    """
    match call.service, call.operation:
        case "stepfunctions", "StartExecution":
            if len(str(call.parameters.get("input", "")).encode()) > limits.EXECUTION_INPUT_BYTES_MAX:
                return _refusal("states", "ValidationException", f"input: {limits.EXECUTION_INPUT_BYTES_MAX} bytes")
        case "lambda", "Invoke":
            allowed = limits.LAMBDA_EVENT_BYTES_MAX if is_async else limits.LAMBDA_PAYLOAD_BYTES_MAX
            if body_bytes > allowed:
                return _refusal("lambda", "RequestTooLargeException", f"event: {allowed} bytes", 413)
        case "firehose", "PutRecordBatch":
            return _of_records([_size(record) for record in call.parameters.get("Records", [])])
        case "firehose", "PutRecord":
            return _of_records([_size(call.parameters.get("Record", {}))])
    return None


def cut(answer: bytes, requested: Mapping[str, Any]) -> bytes:
    """Shorten *answer*, a response of BatchGetItem, to the size that AWS allows. Removed items become unprocessed keys.

    *requested* is the request's `RequestItems`.

    >>> cut(b'{"Responses": {"T": []}, "UnprocessedKeys": {}}', {})
    b'{"Responses": {"T": []}, "UnprocessedKeys": {}}'
    """
    if len(answer) <= limits.BATCH_GET_BYTES_MAX:
        return answer
    found = json.loads(answer)
    room = limits.BATCH_GET_BYTES_MAX
    unprocessed = dict(found.get("UnprocessedKeys", {}))
    for table, items in found["Responses"].items():
        kept = []
        for item in items:
            room -= len(json.dumps(item))
            if room >= 0:
                kept.append(item)
                continue
            names = requested[table]["Keys"][0]
            left = unprocessed.setdefault(table, {**requested[table], "Keys": []})
            left["Keys"].append({name: item[name] for name in names})
        found["Responses"][table] = kept
    return json.dumps({**found, "UnprocessedKeys": unprocessed}).encode()


def _of_records(sizes: list[int]) -> Response | None:
    if len(sizes) > limits.FIREHOSE_BATCH_MAX:
        return _refusal("firehose", "InvalidArgumentException", f"{limits.FIREHOSE_BATCH_MAX} records")
    if max(sizes, default=0) > limits.FIREHOSE_RECORD_BYTES_MAX:
        return _refusal("firehose", "InvalidArgumentException", f"record: {limits.FIREHOSE_RECORD_BYTES_MAX} bytes")
    if sum(sizes) > limits.FIREHOSE_BATCH_BYTES_MAX:
        return _refusal("firehose", "InvalidArgumentException", f"batch: {limits.FIREHOSE_BATCH_BYTES_MAX} bytes")
    return None


def _size(record: Mapping[str, Any]) -> int:
    try:
        return len(base64.b64decode(str(record.get("Data", ""))))
    except binascii.Error:
        return 0


def _refusal(service: str, code: str, what: str, status: int = 400) -> Response:
    return refusal(service, code, f"larger than AWS allows ({what})", status)

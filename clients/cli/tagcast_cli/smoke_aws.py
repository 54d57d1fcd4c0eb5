"""The resources of `tagcast smoke` on AWS: two queues, and a function with a minimal role and a URL.

All names begin with `tagcast_smoke_STACK_RUN`. The guard of endpoints refuses names that begin with `STACK-`, because
they are the stack's own. It accepts the names of smoke tests, even for a stack called tagcast.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import secrets
import time
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from tagcast_client.operation import drop_none

from tagcast_cli import smoke_receiver
from tagcast_cli.doctor import DENIED, Deployment

ACTIONS = {
    "s3:ListObjectsV2": "s3:ListBucket",
    "sqs:DeleteMessageBatch": "sqs:DeleteMessage",
    "lambda:CreateFunction20150331": "lambda:CreateFunction",
}
"""Maps operations to the IAM action that they need, if it has another name."""
ABSENT = frozenset(
    {"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist", "ResourceNotFoundException", "NoSuchEntity"}
)
NOT_YET = "InvalidParameterValueException"
"""The error of Lambda for a role that IAM created a moment ago."""
PUBLIC_FORBIDDEN = "PublicPolicyException"
ROLE_S, URL_S, POLL_S, JOB_POLL_S, JOB_S = 60.0, 20.0, 2.0, 10.0, 900.0
PUSHERS = ("FanOutFunctionRole", "RetryFunctionRole")
RUNTIME, MEMORY_MB, TIMEOUT_S = "python3.13", 1024, 10
"""With less memory the function gets less CPU, and the first push would wait for the import of boto3."""
ARCHIVED_BYTES_MAX = 256 * 1024 * 1024
"""The maximum bytes of the archive that a run reads. For a larger archive, use Athena."""
EARLY = timedelta(minutes=5)
"""Firehose names an object by its oldest record, which is at most this much older than the run's first message."""
ENDED = ("SUCCEEDED", "FAILED", "STOPPED", "TIMEOUT", "ERROR", "EXPIRED")


Endpoint = Mapping[str, str]


class MissingRightError(Exception):
    """The caller lacks the permission for *action*."""

    def __init__(self, action: str) -> None:
        super().__init__(f"Your identity may not call {action}.")
        self.action = action


class PlaceError(Exception):
    """AWS or the local stack could not complete a call. The error's text is the reason."""


class NotPlayedError(Exception):
    """A step of the smoke test could not run, or its option was not given. The error's text is the reason."""


@dataclass(frozen=True, slots=True)
class Push:
    """A push in the receiver's log. *status* is the status of the response, *at_s* the time in seconds since 1970."""

    subscription: str
    message_id: str
    attempt: int
    status: int
    at_s: float


@dataclass(frozen=True, slots=True)
class JobRun:
    """A run of a Glue job. *fault* is its error, or empty. *dpu_hours* are the hours of processing units it costs."""

    state: str
    began_at: str
    fault: str = ""
    dpu_hours: float = 0.0


@dataclass
class OnAws:
    """Creates and deletes the AWS resources of smoke tests, and reads what they received, as the deployment's owner.

    *run* is always the name of a smoke test, as `new_run` returns it. *queue_requests* counts the requests to SQS.
    """

    deployment: Deployment
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    now_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    queue_requests: int = 0
    _log: str = ""
    _queue: str = ""
    _not_yet: str = ""
    _seen_keys: dict[str, frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._began_at = self.now()

    @property
    def prefix(self) -> str:
        """The prefix of the names of all smoke tests in this stack."""
        return f"tagcast_smoke_{self.deployment.stack}_"

    def new_run(self) -> str:
        """Return a name for one smoke test; the names of all its resources begin with it."""
        return f"{self.prefix}{secrets.token_hex(4)}"

    def earlier_runs(self) -> Sequence[str]:
        """Return the names of earlier smoke tests that left resources.

        Each run deletes its log queue last, so a run that left resources still has its log queue.
        """
        found = self._call("sqs", "list_queues", QueueNamePrefix=self.prefix).get("QueueUrls", [])
        names = [url.rpartition("/")[2] for url in found]
        return sorted(name.removesuffix("_log.fifo") for name in names if name.endswith("_log.fifo"))

    def make_log(self, run: str) -> None:
        """Create the log, a queue to which the function reports each push that it gets."""
        self._log = self._make_queue(f"{run}_log.fifo", {})

    def make_queue(self, run: str) -> Endpoint:
        """Create a queue whose policy allows the stack's pushers to send. Return it as an endpoint.

        With this policy, the stack's parameters need not name the queue. The policy is set at the creation, because a
        later change may take a minute.
        """
        name = f"{run}_queue.fifo"
        policy = _policy(self._arn("sqs", name), "sqs:SendMessage", {"AWS": self._pushers})
        self._queue = self._make_queue(name, {"Policy": json.dumps(policy)})
        return {"protocol": "sqs", "queue_url": self._queue}

    def make_function(self, run: str, secret: str) -> Endpoint:
        """Create the function with the receiver's code, and a role that may only write to the log. Return its endpoint.

        The function verifies pushes to its URL with *secret*.
        """
        trust = _policy(None, "sts:AssumeRole", {"Service": "lambda.amazonaws.com"})
        role = self._call("iam", "create_role", RoleName=run, AssumeRolePolicyDocument=json.dumps(trust))["Role"]["Arn"]
        allowed = _policy(self._arn("sqs", f"{run}_log.fifo"), "sqs:SendMessage", None)
        self._call("iam", "put_role_policy", RoleName=run, PolicyName="log", PolicyDocument=json.dumps(allowed))
        self._create_function(run, role, secret)
        for number, pusher in enumerate(self._pushers):
            self._permit(run, f"pusher-{number}", "lambda:InvokeFunction", pusher)
        return {"protocol": "lambda", "function": self._arn("lambda", f"function:{run}")}

    def make_url(self, run: str) -> Endpoint:
        """Create a public URL of the function, wait until it answers, and return it as an endpoint.

        The function refuses requests that are not signed with its secret. Raises NotPlayedError if the URL does not
        answer 200 in time.
        """
        url = self._call("lambda", "create_function_url_config", FunctionName=run, AuthType="NONE")["FunctionUrl"]
        self._permit(run, "url", "lambda:InvokeFunctionUrl", "*", FunctionUrlAuthType="NONE")
        self._permit(run, "by-url", "lambda:InvokeFunction", "*", InvokedViaFunctionUrl=True)
        deadline_s = self.now_s() + URL_S
        while (status := self.deployment.get(url)[0]) != 200:
            if self.now_s() >= deadline_s:
                text = f"The function's URL answers {status}. Check whether your organization forbids public functions."
                raise NotPlayedError(text)
            self.sleep(POLL_S)
        return {"protocol": "https", "url": str(url)}

    def read_pushes(self) -> Sequence[Push]:
        """Return the pushes that the function logged since the last call."""
        return [Push(**json.loads(body)) for body in self._drain_queue(self._log)]

    def read_queued(self) -> Sequence[str]:
        """Return the ids of the messages that arrived in the queue since the last call."""
        return [str(json.loads(body)["message_id"]) for body in self._drain_queue(self._queue)]

    def read_archived(self, topic: str) -> frozenset[str]:
        """Return the ids of a topic's messages in the archive. Only objects written since this run began are read."""
        bucket, found, size = self.deployment.output("ArchiveBucketName"), frozenset[str](), 0
        for key, length in self._list_new_objects(bucket):
            if key not in self._seen_keys:
                size += length
                if size > ARCHIVED_BYTES_MAX:
                    raise PlaceError(
                        f"More than {ARCHIVED_BYTES_MAX >> 20} MB were archived since the start: use Athena."
                    )
                content = self._call("s3", "get_object", Bucket=bucket, Key=key)["Body"].read()
                records = map(json.loads, gzip.decompress(content).splitlines())
                ids = (str(record["message_id"]) for record in records if record.get("topic") == topic)
                self._seen_keys[key] = frozenset(ids)
            found |= self._seen_keys[key]
        return found

    def last_job(self) -> JobRun | None:
        """Return the last run of the compaction job, or None if the job never ran."""
        runs = self._call("glue", "get_job_runs", JobName=f"{self.deployment.stack}-compact", MaxResults=1)["JobRuns"]
        return _job_run(runs[0]) if runs else None

    def run_job(self) -> JobRun:
        """Run the compaction job for yesterday, and wait for its end, at most ``JOB_S`` seconds. Return the run."""
        name, arguments = f"{self.deployment.stack}-compact", {"--lookback-days": "1"}
        run = self._call("glue", "start_job_run", JobName=name, Arguments=arguments)["JobRunId"]
        deadline_s = self.now_s() + JOB_S
        while True:
            found = _job_run(self._call("glue", "get_job_run", JobName=name, RunId=run)["JobRun"])
            if found.state in ENDED or self.now_s() >= deadline_s:
                return found
            self.sleep(JOB_POLL_S)

    def remove(self, run: str, *, keep_log: bool) -> Sequence[str]:
        """Delete the function, its role and its queue. Then delete the log queue, unless *keep_log* is true.

        The log queue also stays if another resource remains. Return the remaining resources, with the reasons.
        """
        removals: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
            (f"the function {run}", "lambda", "delete_function", {"FunctionName": run}),
            (f"the policy of the role {run}", "iam", "delete_role_policy", {"RoleName": run, "PolicyName": "log"}),
            (f"the role {run}", "iam", "delete_role", {"RoleName": run}),
            (f"the queue {run}_queue.fifo", "sqs", "delete_queue", {"QueueUrl": self._url(f"{run}_queue.fifo")}),
            (f"the queue {run}_log.fifo", "sqs", "delete_queue", {"QueueUrl": self._url(f"{run}_log.fifo")}),
        )
        left: list[str] = []
        for what, service, method, arguments in removals:
            if (left or keep_log) and what == removals[-1][0]:
                break
            try:
                self._call(service, method, none_for=ABSENT, **arguments)
            except (MissingRightError, PlaceError) as fault:
                left.append(f"{what} ({fault})")
        return left

    def _create_function(self, run: str, role: str, secret: str) -> None:
        """Create the function as soon as Lambda accepts its role, and wait until it can be invoked."""
        request: dict[str, Any] = {
            "FunctionName": run,
            "Runtime": RUNTIME,
            "Role": role,
            "Handler": f"{smoke_receiver.__name__.rpartition('.')[2]}.{smoke_receiver.handle.__name__}",
            "Code": {"ZipFile": receiver_archive()},
            "Timeout": TIMEOUT_S,
            "MemorySize": MEMORY_MB,
            "Architectures": ["arm64"],
            "Environment": {"Variables": self._variables(secret)},
        }
        deadline_s = self.now_s() + ROLE_S
        while self._call("lambda", "create_function", none_for=(NOT_YET,), **request) is None:
            if self.now_s() >= deadline_s:
                raise PlaceError(f"Lambda created no function within {ROLE_S:.0f} s: {self._not_yet}")
            self.sleep(POLL_S)
        while self._call("lambda", "get_function_configuration", FunctionName=run)["State"] == "Pending":
            if self.now_s() >= deadline_s:
                raise PlaceError(f"The function {run} is not ready after {ROLE_S:.0f} s.")
            self.sleep(POLL_S)

    def _variables(self, secret: str) -> dict[str, str]:
        return {smoke_receiver.LOG_VARIABLE: self._log, smoke_receiver.SECRET_VARIABLE: secret}

    def _permit(self, run: str, statement: str, action: str, principal: str, **condition: Any) -> None:
        request = {"FunctionName": run, "StatementId": statement, "Action": action, "Principal": principal}
        self._call("lambda", "add_permission", **request | condition)

    def _make_queue(self, name: str, attributes: Mapping[str, str]) -> str:
        fifo = {"FifoQueue": "true", **attributes}
        return str(self._call("sqs", "create_queue", QueueName=name, Attributes=fifo)["QueueUrl"])

    def _drain_queue(self, queue: str) -> list[str]:
        bodies: list[str] = []
        while True:
            request: dict[str, Any] = {"QueueUrl": queue, "MaxNumberOfMessages": 10, "WaitTimeSeconds": 0}
            messages = self._call("sqs", "receive_message", **request).get("Messages", [])
            if not messages:
                return bodies
            bodies += [message["Body"] for message in messages]
            entries = [{"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]} for n, each in enumerate(messages)]
            self._call("sqs", "delete_message_batch", QueueUrl=queue, Entries=entries)

    def _list_new_objects(self, bucket: str) -> list[tuple[str, int]]:
        """Return the keys and sizes of the message objects that were archived since the run began."""
        hours, at = [], (self._began_at - EARLY).replace(minute=0, second=0, microsecond=0)
        while at <= self.now():
            hours.append(at)
            at += timedelta(hours=1)
        found: list[tuple[str, int]] = []
        for hour in hours:
            request: dict[str, Any] = {"Bucket": bucket, "Prefix": f"raw/messages/dt={hour:%Y-%m-%d}/hour={hour:%H}/"}
            while True:
                page = self._call("s3", "list_objects_v2", **request)
                # S3's instants have whole seconds.
                since = self._began_at.replace(microsecond=0)
                new = (each for each in page.get("Contents", ()) if each["LastModified"] >= since)
                found += [(each["Key"], each["Size"]) for each in new]
                if not page.get("IsTruncated"):
                    break
                request["ContinuationToken"] = page["NextContinuationToken"]
        return found

    @cached_property
    def _caller(self) -> list[str]:
        """The partition and the account in the ARN of the caller."""
        words = str(self._call("sts", "get_caller_identity")["Arn"]).split(":")
        return [words[1], words[4]]

    @cached_property
    def _pushers(self) -> list[str]:
        """The ARNs of the stack's roles that push."""
        partition, account = self._caller
        names = [self._call("cloudformation", "describe_stack_resource", StackName=self.deployment.stack,
                            LogicalResourceId=role)["StackResourceDetail"]["PhysicalResourceId"]
                 for role in PUSHERS]  # fmt: skip
        return [f"arn:{partition}:iam::{account}:role/{name}" for name in names]

    def _arn(self, service: str, name: str) -> str:
        partition, account = self._caller
        return f"arn:{partition}:{service}:{self.deployment.session.region_name}:{account}:{name}"

    def _url(self, queue: str) -> str:
        """Return the URL of a queue, which consists of the account and the name."""
        endpoint = self.deployment.client("sqs").meta.endpoint_url
        return f"{endpoint}/{self._caller[1]}/{queue}"

    def _call(self, service: str, method: str, *, none_for: Collection[str] = (), **arguments: Any) -> Any:
        """Call an operation of AWS. Raises MissingRightError, NotPlayedError or PlaceError.

        Return None for an error with a code in *none_for*.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        if service == "sqs":
            self.queue_requests += 1
        try:
            return getattr(self.deployment.client(service), method)(**arguments)
        except ClientError as fault:
            code = fault.response["Error"]["Code"]
            if code in none_for:
                self._not_yet = str(fault)
                return None
            if code in DENIED:
                raise MissingRightError(_action(service, fault.operation_name, str(fault))) from fault
            if code == PUBLIC_FORBIDDEN:
                raise NotPlayedError(f"The account forbids public functions. {fault}") from fault
            raise PlaceError(str(fault)) from fault
        except BotoCoreError as fault:
            raise PlaceError(str(fault)) from fault


def receiver_archive() -> bytes:
    """Return a zip archive with the code of the function, the receiver's file. Its bytes are the same each time."""
    source, archive = Path(smoke_receiver.__file__), io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        entry = zipfile.ZipInfo(source.name)
        entry.external_attr = 0o644 << 16
        written.writestr(entry, source.read_text())
    return archive.getvalue()


def _policy(resource: str | None, action: str, principal: Mapping[str, Any] | None) -> dict[str, Any]:
    statement = drop_none(Effect="Allow", Action=action, Principal=principal, Resource=resource)
    return {"Version": "2012-10-17", "Statement": [statement]}


def _action(service: str, operation: str, text: str) -> str:
    """Return the IAM action that was denied: the action in AWS's message, or else the action of the operation.

    >>> _action("lambda", "CreateFunction", "User: me is not authorized to perform: iam:PassRole on resource: r")
    'iam:PassRole'
    >>> _action("s3", "ListObjectsV2", "Access Denied")
    's3:ListBucket'
    """
    found = re.search(r"not authorized to perform: ([a-z0-9-]+:[A-Za-z]+)", text)
    named = found.group(1) if found else f"{service}:{operation}"
    return ACTIONS.get(named, named)


def _job_run(run: Mapping[str, Any]) -> JobRun:
    """Return a run from Glue's description. Glue bills at least a minute."""
    dpu_hours = float(run.get("MaxCapacity", 0.0)) * max(60, int(run.get("ExecutionTime", 0))) / 3600
    began_at = f"{run['StartedOn']:%Y-%m-%d %H:%M} UTC"
    return JobRun(str(run["JobRunState"]), began_at, str(run.get("ErrorMessage", "")), dpu_hours)

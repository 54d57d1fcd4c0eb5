"""What `tagcast smoke` asks AWS for, on moto: names, rights of the role it makes, and what is left at the end."""

import base64
import gzip
import hashlib
import hmac
import io
import json
import runpy
import time
import zipfile
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import boto3
import pytest
from tagcast_cli.app import app
from tagcast_cli.doctor import Deployment
from tagcast_cli.smoke_aws import (
    NOT_YET,
    JobRun,
    MissingRightError,
    NotPlayedError,
    OnAws,
    PlaceError,
    Push,
    receiver_archive,
)
from tagcast_cli.smoke_receiver import answer, handle
from typer.testing import CliRunner

from tests.unit.cli import aws
from tests.unit.cli.aws import REGION, Session, own, stack_outputs
from tests.unit.cli.conftest import FakeApi

ACCOUNT, STACK, BUCKET = "123456789012", "tagcast", "tagcast-archive"
SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"
POLICY = json.loads((Path(__file__).resolve().parents[3] / "docs/policies/smoke.json").read_text())
JOB_RUN = {"JobRunState": "SUCCEEDED", "StartedOn": datetime(2026, 11, 24, 3, 10, tzinfo=UTC), "MaxCapacity": 2.0}


@dataclass
class Answers(aws.Answers):
    """A deployment, and the status of every URL."""

    url: str = "https://api.test/"
    url_status: int = 200
    slept: list[float] = field(default_factory=list)

    def replies(self) -> dict[str, Any]:
        return {
            "DescribeStacks": {"Stacks": [{"Outputs": stack_outputs(Url=self.url, ArchiveBucketName=BUCKET)}]},
            "DescribeStackResource": {"StackResourceDetail": {"PhysicalResourceId": f"{STACK}-role"}},
            "GetJobRuns": {"JobRuns": [JOB_RUN]},
            "StartJobRun": {"JobRunId": "jr_1"},
            "GetJobRun": {"JobRun": JOB_RUN | {"ExecutionTime": 90}},
        }


@pytest.fixture
def answers(account: None) -> Answers:
    own("iam").create_role(RoleName=f"{STACK}-role", AssumeRolePolicyDocument="{}")
    own("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    return Answers()


def place_of(answers: Answers) -> OnAws:
    """A place whose clock goes on by what is slept, and whose URLs answer as *answers* say."""
    of = Deployment(STACK, Session(answers), lambda url: (answers.url_status, {}))
    return OnAws(of, now_s=lambda: sum(answers.slept), sleep=answers.slept.append)


@pytest.fixture
def place(answers: Answers) -> OnAws:
    return place_of(answers)


def left() -> dict[str, list[str]]:
    """What of any run is in the account."""
    queues = own("sqs").list_queues(QueueNamePrefix="tagcast_smoke").get("QueueUrls", [])
    functions = own("lambda").list_functions()["Functions"]
    roles = own("iam").list_roles()["Roles"]
    return {
        "queues": [each.rpartition("_")[2] for each in queues],
        "functions": [each["FunctionName"] for each in functions],
        "roles": [each["RoleName"] for each in roles if each["RoleName"].startswith("tagcast_smoke")],
    }


def archive(content: bytes, at: datetime | None = None, name: str = "a") -> None:
    """Put an object where Firehose writes what it got in that hour."""
    at = at or datetime.now(UTC)
    own("s3").put_object(Bucket=BUCKET, Key=f"raw/messages/dt={at:%Y-%m-%d}/hour={at:%H}/{name}.gz", Body=content)


def zipped(message_id: str, topic: str = "t") -> bytes:
    return gzip.compress(json.dumps({"topic": topic, "message_id": message_id}).encode() + b"\n")


def make_all(place: OnAws) -> str:
    run = place.new_run()
    place.make_log(run)
    place.make_queue(run)
    place.make_function(run, SECRET)
    place.make_url(run)
    return run


NOTHING: Final[dict[str, list[str]]] = {"queues": [], "functions": [], "roles": []}


def test_everything_that_is_made_has_the_run_in_its_name_and_is_removed(place: OnAws) -> None:
    run = make_all(place)
    assert run.startswith(f"tagcast_smoke_{STACK}_")
    assert left() == {"queues": ["log.fifo", "queue.fifo"], "functions": [run], "roles": [run]}
    assert place.earlier_runs() == [run]
    assert place.remove(run, keep_log=False) == []
    assert left() == NOTHING
    assert place.earlier_runs() == []


def test_names_fit_the_longest_name_of_a_stack_and_are_never_taken_for_its_own(answers: Answers) -> None:
    place = OnAws(Deployment("s" * 40, Session(answers), lambda url: (200, {})))
    run = place.new_run()
    assert len(run) <= 64
    assert len(f"{run}_queue.fifo") <= 80
    assert not place_of(answers).new_run().startswith(f"{STACK}-")


def test_the_role_of_the_function_can_write_to_the_log_and_do_nothing_else(answers: Answers) -> None:
    run = make_all(place_of(answers))
    iam = own("iam")
    (role,) = answers.of("iam:CreateRole")
    (statement,) = json.loads(role["AssumeRolePolicyDocument"])["Statement"]
    assert statement == {
        "Effect": "Allow",
        "Action": "sts:AssumeRole",
        "Principal": {"Service": "lambda.amazonaws.com"},
    }
    assert iam.list_role_policies(RoleName=run)["PolicyNames"] == ["log"]
    assert iam.list_attached_role_policies(RoleName=run)["AttachedPolicies"] == []
    document: Any = iam.get_role_policy(RoleName=run, PolicyName="log")["PolicyDocument"]
    assert document["Statement"] == [
        {"Effect": "Allow", "Action": "sqs:SendMessage", "Resource": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{run}_log.fifo"}
    ]


def test_only_the_pushers_of_the_stack_may_send_and_invoke_and_anybody_the_url(answers: Answers) -> None:
    run = make_all(place_of(answers))
    pusher = f"arn:aws:iam::{ACCOUNT}:role/{STACK}-role"
    queue = next(each for each in answers.of("sqs:CreateQueue") if each["QueueName"] == f"{run}_queue.fifo")
    (statement,) = json.loads(queue["Attributes"]["Policy"])["Statement"]
    assert statement["Principal"] == {"AWS": [pusher, pusher]}
    assert (statement["Action"], statement["Resource"].rpartition(":")[2]) == ("sqs:SendMessage", f"{run}_queue.fifo")
    permitted = [
        (each["Action"], each["Principal"], each.get("FunctionUrlAuthType"), each.get("InvokedViaFunctionUrl"))
        for each in answers.of("lambda:AddPermission")
    ]
    assert permitted == [
        ("lambda:InvokeFunction", pusher, None, None),
        ("lambda:InvokeFunction", pusher, None, None),
        ("lambda:InvokeFunctionUrl", "*", "NONE", None),
        ("lambda:InvokeFunction", "*", None, True),
    ]
    resources = {each["LogicalResourceId"] for each in answers.of("cloudformation:DescribeStackResource")}
    assert resources == {"FanOutFunctionRole", "RetryFunctionRole"}


def test_the_function_is_the_receivers_file_and_its_handler_is_there(answers: Answers, tmp_path: Path) -> None:
    make_all(place_of(answers))
    (asked,) = answers.of("lambda:CreateFunction")
    with zipfile.ZipFile(io.BytesIO(asked["Code"]["ZipFile"])) as archive:
        (name,) = archive.namelist()
        archive.extractall(tmp_path)
    module, _, function = asked["Handler"].partition(".")
    assert f"{module}.py" == name
    assert callable(runpy.run_path(str(tmp_path / name))[function])
    assert asked["Environment"]["Variables"].keys() == {"LOG_QUEUE", "SECRET"}
    assert receiver_archive() == receiver_archive()


def test_a_role_that_lambda_does_not_know_yet_is_waited_for(answers: Answers) -> None:
    answers.faults += [("CreateFunction", NOT_YET)] * 2
    make_all(place_of(answers))
    assert len(answers.of("lambda:CreateFunction")) == 3
    assert answers.slept == [2.0, 2.0]


def test_a_function_that_lambda_never_makes_is_told_with_its_reason(answers: Answers) -> None:
    answers.faults += [("CreateFunction", NOT_YET)] * 100
    with pytest.raises(PlaceError, match=r"created no function within 60 s: .*InvalidParameterValueException"):
        make_all(place_of(answers))


def test_an_account_that_forbids_public_functions_has_no_endpoint(place: OnAws, answers: Answers) -> None:
    run = place.new_run()
    place.make_log(run)
    place.make_function(run, SECRET)
    answers.faults.append(("AddPermission", "PublicPolicyException"))
    with pytest.raises(NotPlayedError, match="forbids public functions"):
        place.make_url(run)


def test_a_url_that_is_forbidden_is_not_taken_for_a_broken_promise(answers: Answers) -> None:
    answers.url_status = 403
    with pytest.raises(NotPlayedError, match="answers 403"):
        make_all(place_of(answers))


@pytest.mark.parametrize(
    ("operation", "action"),
    [
        ("CreateQueue", "sqs:CreateQueue"),
        ("CreateRole", "iam:CreateRole"),
        ("PutRolePolicy", "iam:PutRolePolicy"),
        ("CreateFunction", "lambda:CreateFunction"),
        ("AddPermission", "lambda:AddPermission"),
        ("CreateFunctionUrlConfig", "lambda:CreateFunctionUrlConfig"),
        ("DescribeStackResource", "cloudformation:DescribeStackResource"),
    ],
)
def test_a_missing_right_is_told_and_what_was_made_before_it_is_removed(
    answers: Answers, operation: str, action: str
) -> None:
    answers.denied.add(operation)
    place = place_of(answers)
    with pytest.raises(MissingRightError) as told:
        make_all(place)
    assert told.value.action == action
    run = place.new_run()
    made = [each["QueueName"] for each in answers.of("sqs:CreateQueue")]
    assert place.remove(made[0].removesuffix("_log.fifo") if made else run, keep_log=False) == []
    assert left() == NOTHING


def test_what_cannot_be_removed_is_told_and_stays_to_be_found(place: OnAws, answers: Answers) -> None:
    run = make_all(place)
    answers.denied.add("DeleteRole")
    assert place.remove(run, keep_log=False) == [f"the role {run} (Your identity may not call iam:DeleteRole.)"]
    assert left() == {"queues": ["log.fifo"], "functions": [], "roles": [run]}
    answers.denied.clear()
    for found in place.earlier_runs():
        assert place.remove(found, keep_log=False) == []
    assert left() == NOTHING


def test_the_receiver_notes_signed_pushes_and_direct_invocations_and_nothing_else(
    place: OnAws, answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_all(place)
    (asked,) = answers.of("lambda:CreateFunction")
    settings = asked["Environment"]["Variables"]
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    unsigned = {"webhook-id": "1", "x-tagcast-subscription": "endpoint", "x-tagcast-attempt": "1"}

    def request(method: str, headers: dict[str, str]) -> dict[str, Any]:
        return {"requestContext": {"http": {"method": method}}, "headers": headers, "body": "{}"}

    forged = {"webhook-timestamp": str(int(time.time())), "webhook-signature": "v1,é"}
    for headers in (unsigned, {**unsigned, **forged}, {**unsigned, "webhook-timestamp": "²"}):
        assert answer(request("POST", headers), settings) == {"statusCode": 401}
    assert answer(request("GET", {}), settings) == {"statusCode": 200}
    agreed = answer(request("OPTIONS", {"WebHook-Request-Origin": "a.tagcast"}), settings)
    assert agreed["headers"]["webhook-allowed-origin"] == "a.tagcast"
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    body, at = b'{"verification_token": "t"}', str(round(time.time()))
    signature = base64.b64encode(hmac.new(key, f"t.{at}.".encode() + body, hashlib.sha256).digest()).decode()
    signed = {"webhook-id": "t", "webhook-timestamp": at, "webhook-signature": f"v1,{signature}"}
    asked_for_token = {**request("POST", signed), "body": body.decode()}
    assert answer(asked_for_token, settings) == {"statusCode": 200, "body": "t"}
    assert place.read_pushes() == []
    assert handle({"subscription": "function", "message_id": "7", "attempt": 2}, None) == {}
    (push,) = place.read_pushes()
    assert push == Push("function", "7", 2, 200, push.at_s)
    assert place.read_pushes() == []


def test_the_queue_is_read_in_its_order_and_only_once(place: OnAws) -> None:
    run = place.new_run()
    url = place.make_queue(run)["queue_url"]
    sqs = own("sqs")
    for number in range(12):
        body = json.dumps({"message_id": f"{number}"})
        sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="t", MessageDeduplicationId=f"{number}")
    assert place.read_queued() == [f"{number}" for number in range(12)]
    assert place.read_queued() == []


def test_the_archive_is_read_where_firehose_writes_from_the_beginning_of_the_run(
    place: OnAws, answers: Answers
) -> None:
    archive(zipped("1") + zipped("2", "other") + zipped("3"))
    assert place.read_archived("t") == {"1", "3"}
    reads = len(answers.of("s3:GetObject"))
    assert place.read_archived("t") == {"1", "3"}
    assert len(answers.of("s3:GetObject")) == reads == 1


def test_the_object_of_a_first_message_may_be_named_by_the_hour_before(answers: Answers) -> None:
    at = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    place = replace(place_of(answers), now=lambda: at)
    archive(zipped("1"), at - timedelta(minutes=1))
    assert place.read_archived("t") == {"1"}


def test_what_was_archived_is_read_from_every_page_of_the_list(place: OnAws, answers: Answers) -> None:
    for number in "01234":
        archive(zipped(number), name=number)
    answers.keys_of_a_page = 2
    assert place.read_archived("t") == set("01234")
    assert len(answers.of("s3:ListBucket")) >= 3


def test_an_archive_that_grows_too_fast_is_not_read(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tagcast_cli.smoke_aws.ARCHIVED_BYTES_MAX", 10)
    place = place_of(answers)
    archive(b"x" * 11)
    with pytest.raises(PlaceError, match="use Athena"):
        place.read_archived("t")


def test_a_job_is_billed_for_its_workers_and_a_minute_at_least(place: OnAws, answers: Answers) -> None:
    assert place.last_job() == JobRun("SUCCEEDED", "2026-11-24 03:10 UTC", "", 2 * 60 / 3600)
    assert place.run_job().dpu_hours == 2 * 90 / 3600
    (asked,) = answers.of("glue:StartJobRun")
    assert asked == {"JobName": f"{STACK}-compact", "Arguments": {"--lookback-days": "1"}}


def test_its_rights_are_those_of_the_document_and_no_more_than_it_uses(place: OnAws, answers: Answers) -> None:
    archive(gzip.compress(b""))
    url = place.make_queue(place.new_run())["queue_url"]
    sent = {"MessageBody": '{"message_id": "1"}', "MessageGroupId": "t", "MessageDeduplicationId": "1"}
    own("sqs").send_message(QueueUrl=url, **sent)
    run = make_all(place)
    own("sqs").send_message(QueueUrl=place._queue, **sent)
    place.read_queued()
    place.read_archived("t")
    place.last_job()
    place.run_job()
    place.earlier_runs()
    place.remove(run, keep_log=False)
    used = {action for action, _ in answers.calls} | {"iam:PassRole"}  # Of CreateFunction, which moto does not ask for.
    listed = {action for statement in POLICY["Statement"] for action in statement["Action"]}
    assert listed == used | {"execute-api:Invoke"}


def test_its_rights_at_the_api_are_those_of_its_own_topics(
    answers: Answers, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers.url = api.url
    unknown = api.answer_to
    put = (201, "application/json", "{}")
    monkeypatch.setattr(api, "answer_to", lambda method, path: put if method == "PUT" else unknown(method, path))
    monkeypatch.setattr(boto3, "Session", lambda **_: Session(answers))
    CliRunner().invoke(app, ["smoke", "--stack", STACK])
    [allowed] = [each["Resource"] for each in POLICY["Statement"] if each["Action"] == ["execute-api:Invoke"]]
    asked = [f"arn:aws:execute-api:{REGION}:{ACCOUNT}:id/$default/{each.method}{each.path}" for each in api.requests]
    assert {each.method for each in api.requests} == {"PUT", "POST", "DELETE"}
    assert [each for each in asked if not fnmatchcase(each, allowed)] == []


def test_a_stack_that_is_not_there_is_a_fault_of_the_command(answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    answers.faults.append(("DescribeStacks", "ValidationError"))
    monkeypatch.setattr(boto3, "Session", lambda **_: Session(answers))
    shown = CliRunner().invoke(app, ["smoke", "--stack", STACK])
    assert shown.exit_code == 2
    assert left() == NOTHING


def test_an_api_that_makes_no_topic_fails_the_command_which_leaves_nothing(
    answers: Answers, api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers.url = api.url
    monkeypatch.setattr(boto3, "Session", lambda **_: Session(answers))
    told = CliRunner().invoke(app, ["--json", "smoke", "--stack", STACK])
    said = json.loads(told.output)
    assert (told.exit_code, said["failed"]) == (1, ["topic"])
    ended = {step["name"]: step["state"] for step in said["steps"]}
    assert ended["leftovers"] == ended["job"] == ended["clean-up"] == "ok"
    assert {state for name, state in ended.items() if name not in ("leftovers", "topic", "job", "clean-up")} == {
        "not checked"
    }
    assert said["seen"] == ["glue-arguments", "glue-session", "glue-version"]
    assert 0 < said["usd_at_most"] < 0.01
    assert left() == NOTHING

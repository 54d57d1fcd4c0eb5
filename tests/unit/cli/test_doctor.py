"""`tagcast doctor` on moto: each finding in its words, whatever of the deployment is missing or out of order."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any, cast

import boto3
import pytest
from botocore.exceptions import ClientError
from tagcast_cli.api_client import client_for
from tagcast_cli.app import app
from tagcast_cli.doctor import Deployment, Finding, State, examine, own_session
from tagcast_cli.session import Session as CommandSession
from typer.testing import CliRunner

from tests.unit.cli import aws
from tests.unit.cli.aws import REGION, Session, own, stack_outputs

STACK, BUCKET = "shop", "shop-archive"
NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
POLICY = json.loads((Path(__file__).resolve().parents[3] / "docs/policies/doctor.json").read_text())


@dataclass
class Answers(aws.Answers):
    """A deployment and its account, of which something may be missing or out of order."""

    is_deployed: bool = True
    concurrency: int = 1_000
    source_state: str = "Enabled"
    source_result: str = "No records processed"
    audited_at: datetime | None = NOW - timedelta(hours=10)
    created_at: datetime = NOW - timedelta(days=9)
    status: str = "CREATE_COMPLETE"

    def replies(self) -> dict[str, Any]:
        parameters = [{"ParameterKey": "WaitingPerTopic", "ParameterValue": "100"}]
        outputs = stack_outputs(Url="https://api.test/", ArchiveBucketName=BUCKET)
        stack = {
            "StackStatus": self.status,
            "CreationTime": self.created_at,
            "Parameters": parameters,
            "Outputs": outputs,
        }
        absent = ClientError({"Error": {"Code": "ValidationError", "Message": "shop does not exist"}}, "DescribeStacks")
        by_hand = {"TriggerName": "", "StartedOn": NOW - timedelta(minutes=1)}
        nightly = {"TriggerName": "shop-daily-audit", "StartedOn": self.audited_at}
        return {
            "GetJobRuns": {"JobRuns": [by_hand, nightly] if self.audited_at else [by_hand]},
            "GetAccountSettings": {"AccountLimit": {"ConcurrentExecutions": self.concurrency}},
            "ListEventSourceMappings": {
                "EventSourceMappings": [
                    {"UUID": "u", "State": self.source_state, "LastProcessingResult": self.source_result}
                ]
            },
            "DescribeStacks": {"Stacks": [stack]} if self.is_deployed else absent,
            "DescribeStackResource": {"StackResourceDetail": {"PhysicalResourceId": "table"}},
            "DescribeDeliveryStream": {"DeliveryStreamDescription": {"DeliveryStreamStatus": "ACTIVE"}},
        }


@pytest.fixture
def deployed(account: None) -> None:
    s3 = own("s3")
    s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket=BUCKET, Key="jobs/compact.py", Body=b"")
    table: dict[str, Any] = {
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    }
    dynamodb = own("dynamodb")
    dynamodb.create_table(TableName="table", **table)
    expiry = {"Enabled": True, "AttributeName": "ttl"}
    dynamodb.update_time_to_live(TableName="table", TimeToLiveSpecification=cast("Any", expiry))


def found(
    answers: Answers | None = None, stack: str = STACK, status: int = 200, at: datetime = NOW
) -> dict[str, Finding]:
    headers = {"date": format_datetime(at)}
    of = Deployment(stack, Session(answers or Answers()), lambda url: (status, headers), lambda: NOW)
    return {each.check: each for each in examine(of)}


def test_a_healthy_deployment_is_told_so_check_by_check(deployed: None) -> None:
    findings = found()
    assert {name: each.state for name, each in findings.items() if each.state is not State.OK} == {}
    assert findings["API"].detail == "https://api.test answers."
    assert findings["concurrency"].detail == "The account runs 1000 functions at once."


def test_before_the_first_deployment_the_account_is_looked_at(account: None) -> None:
    findings = found(Answers(is_deployed=False, concurrency=10))
    assert list(findings) == ["identity", "concurrency", "stack"]
    assert findings["stack"].state is State.WARNING
    assert findings["concurrency"].state is State.FAULT
    assert "runs 10 functions at once. Under load publishers get 503" in findings["concurrency"].detail
    assert "free" in findings["concurrency"].remedy


@pytest.mark.parametrize(
    ("status", "then"),
    [
        ("UPDATE_ROLLBACK_COMPLETE", ""),
        ("ROLLBACK_COMPLETE", "; run sam delete before you deploy again"),
        ("UPDATE_ROLLBACK_FAILED", "; then aws cloudformation continue-update-rollback --stack-name shop"),
    ],
)
def test_a_stack_that_no_deployment_can_update_is_told_with_what_comes_before(
    deployed: None, status: str, then: str
) -> None:
    finding = found(Answers(status=status))["stack"]
    assert (finding.state, finding.detail) == (State.FAULT, f"shop is {status}.")
    assert finding.remedy == f"aws cloudformation describe-stack-events --stack-name shop says why{then}"


def test_a_name_that_is_too_long_is_told_before_it_fails(account: None) -> None:
    for refused in ("s" * 41, "Shop", "2shop"):
        assert found(Answers(is_deployed=False), stack=refused)["name"].state is State.FAULT
    assert "name" not in found(Answers(is_deployed=False), stack="s" * 40)


def test_a_source_that_is_disabled_is_a_fault_with_the_command_that_enables_it(deployed: None) -> None:
    finding = found(Answers(source_state="Disabled"))["shop-fan-out"]
    assert (finding.state, finding.detail) == (State.FAULT, "Its event source is Disabled.")
    assert finding.remedy == "aws lambda update-event-source-mapping --uuid u --enabled"
    assert found(Answers(source_state="Updating"))["shop-fan-out"].state is State.OK


def test_a_source_that_is_enabled_but_reports_a_problem_is_told_with_the_log_of_its_function(deployed: None) -> None:
    finding = found(Answers(source_result="PROBLEM: Access denied."))["shop-fan-out"]
    assert (finding.state, finding.detail) == (State.WARNING, "Its event source reports PROBLEM: Access denied.")
    assert finding.remedy == "aws logs tail /tagcast/shop/fan_out --since 30m"
    assert found(Answers(source_result="OK"))["shop-fan-out"].state is State.OK


def test_a_table_whose_rows_never_go_is_told_with_its_price(deployed: None) -> None:
    own("dynamodb").update_time_to_live(
        TableName="table", TimeToLiveSpecification={"Enabled": False, "AttributeName": "ttl"}
    )
    assert found()["MessagesTable"].state is State.WARNING
    assert "0.25 USD" in found()["MessagesTable"].detail


def test_jobs_that_were_never_copied_are_told(deployed: None) -> None:
    own("s3").delete_object(Bucket=BUCKET, Key="jobs/compact.py")
    assert found()["archive"].remedy == f"make jobs && aws s3 sync dist/jobs s3://{BUCKET}/jobs"


def test_nights_without_an_audit_are_told_though_somebody_audits_by_hand(deployed: None) -> None:
    late = found(Answers(audited_at=NOW - timedelta(hours=27)))["audit"]
    assert (late.state, late.detail) == (State.WARNING, "No nightly audit has run since 2026-11-23 09:00 UTC.")
    assert late.remedy.startswith("aws glue get-trigger --name shop-daily-compact")
    assert found(Answers(audited_at=None))["audit"].detail == "No nightly audit has run yet."
    assert found(Answers(audited_at=NOW - timedelta(hours=25)))["audit"].state is State.OK
    assert found(Answers(audited_at=None, created_at=NOW - timedelta(hours=25)))["audit"].state is State.OK


def test_an_api_that_fails_and_a_clock_that_is_wrong_are_faults(deployed: None) -> None:
    assert found(status=503)["API"].detail == "https://api.test/health answers 503."
    assert "300 s off" in found(at=NOW - timedelta(seconds=300))["API"].detail
    assert found(at=NOW - timedelta(seconds=200))["API"].state is State.OK


@pytest.mark.parametrize(
    ("operation", "check"),
    [
        ("GetCallerIdentity", "identity"),
        ("GetAccountSettings", "concurrency"),
        ("DescribeStacks", "stack"),
        ("DescribeTable", "tables"),
        ("ListEventSourceMappings", "sources"),
        ("DescribeAlarms", "alarms"),
        ("ListObjectsV2", "archive"),
        ("GetJobRuns", "audit"),
    ],
)
def test_a_missing_right_ends_its_check_alone(deployed: None, operation: str, check: str) -> None:
    findings = found(Answers(denied={operation}))
    assert findings[check].state is State.UNCHECKED
    assert operation in findings[check].detail
    assert {each.state for name, each in findings.items() if name != check} <= {State.OK, State.UNCHECKED}


def test_its_rights_are_those_of_the_document_and_no_more_than_it_uses(deployed: None) -> None:
    answers = Answers()
    found(answers)
    listed = {action for statement in POLICY["Statement"] for action in statement["Action"]}
    assert listed == {action for action, _ in answers.calls}
    [(_, asked)] = [call for call in answers.calls if call[0] == "s3:ListBucket"]
    [reads] = [each["Condition"] for each in POLICY["Statement"] if "s3:ListBucket" in each["Action"]]
    assert reads == {"StringEquals": {"s3:prefix": asked["Prefix"]}}


def test_without_a_stack_or_a_region_the_command_says_what_to_give(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "400")
    for words, said in (([], "tagcast doctor --stack NAME"), (["--stack", STACK], "no AWS region is set: give one")):
        refused = CliRunner().invoke(app, ["doctor", *words])
        assert (refused.exit_code, said in refused.output) == (2, True), refused.output


def test_without_credentials_commands_for_aws_say_how_to_give_some(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("COLUMNS", "400")
    for words, code in ((["doctor"], 2), (["smoke"], 2), (["cmq-key", "list"], 1)):
        refused = CliRunner().invoke(app, ["--region", "eu-west-1", *words, "--stack", STACK])
        assert (refused.exit_code, "tagcast --profile NAME" in refused.output) == (code, True), refused.output


def test_the_region_is_that_of_the_option_the_address_the_environment_or_the_profile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def region(url: str = "http://127.0.0.1:8080", given: str | None = None) -> str:
        return str(own_session(CommandSession(client_for(url, None, None), False, region=given)).region_name)

    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "config").write_text("[default]\nregion = eu-west-4\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    assert region() == "eu-west-4"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-3")
    assert region() == "eu-west-3"
    monkeypatch.setenv("AWS_REGION", "eu-west-2")
    assert region() == "eu-west-2"
    assert region("https://abc.execute-api.eu-west-1.amazonaws.com") == "eu-west-1"
    assert region("https://abc.execute-api.eu-west-1.amazonaws.com", "us-east-1") == "us-east-1"


def test_the_command_shows_a_table_or_json_and_exits_with_1_for_a_fault(
    account: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boto3, "Session", lambda **_: Session(Answers(is_deployed=False, concurrency=10)))
    shown = CliRunner().invoke(app, ["doctor", "--stack", STACK])
    assert (shown.exit_code, "functions at once" in shown.output) == (1, True)
    told = CliRunner().invoke(app, ["--json", "doctor", "--stack", STACK])
    assert {each["check"] for each in json.loads(told.output)["findings"]} == {"identity", "concurrency", "stack"}


def test_a_parameter_of_the_stack_may_be_a_fraction() -> None:
    of = Deployment("tagcast", None, lambda url: (200, {}))
    vars(of)["described"] = {"Parameters": [{"ParameterKey": "TimeScale", "ParameterValue": "1.5"}]}
    assert of.parameter("TimeScale") == 1.5

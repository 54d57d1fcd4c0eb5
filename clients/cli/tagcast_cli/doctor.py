"""`tagcast doctor`: finds faults of a deployment with its owner's credentials, and prints remedies for known faults.

doctor changes nothing. If the owner lacks the permission for a check, the result says so, and the other checks
continue.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import cache, cached_property
from typing import Annotated, Any

import typer
from rich.text import Text
from tagcast_client.signing import region_of

from tagcast_cli.job_run import values_of
from tagcast_cli.session import Session, session_of
from tagcast_cli.visible import visible

STACK_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
CONCURRENCY_MIN = 100
"""With less concurrency, a few waiting pulls or one busy topic can starve the other functions."""
SKEW_S_MAX = 240
"""The largest accepted clock difference. AWS refuses signatures that are more than five minutes off."""
AUDIT_AGE_MAX = timedelta(hours=26)
"""The longest time between the starts of two nightly audits: a day, and two hours for the jobs that run before."""
STREAMS = ("messages", "deliveries", "subscriptions", "lanes")
DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403"})


class State(StrEnum):
    """The result of a check. UNCHECKED means that the check could not run, for example without permission."""

    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: a sentence (*detail*), and a *remedy*, which is empty if there is none."""

    check: str
    state: State
    detail: str
    remedy: str = ""


@dataclass(frozen=True)
class Deployment:
    """A deployed stack, by its name *stack*. *session* is a boto3 session of its owner; *now* returns the time.

    *get* takes a URL, and returns the status and the headers of its answer.
    """

    stack: str
    session: Any
    get: Callable[[str], tuple[int, dict[str, str]]]
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))

    @cached_property
    def client(self) -> Callable[[str], Any]:
        """A function that takes the name of an AWS service, and returns a boto3 client of the service."""
        return cache(self.session.client)

    @cached_property
    def described(self) -> dict[str, Any] | None:
        """CloudFormation's description of the stack, or None if the stack does not exist."""
        from botocore.exceptions import ClientError

        try:
            (found,) = self.client("cloudformation").describe_stacks(StackName=self.stack)["Stacks"]
        except ClientError as fault:
            if "does not exist" in str(fault):
                return None
            raise
        return dict(found)

    def output(self, name: str) -> str:
        """Return the stack's output *name*, or an empty text if there is no such output or no stack."""
        return values_of(self.described or {}).get(name, "")

    def parameter(self, name: str) -> float:
        """Return the stack's numeric parameter *name*, or 0 if there is no such parameter or no stack."""
        return float(values_of(self.described or {}).get(name, 0))

    def physical_id(self, logical_id: str) -> str:
        """Return the AWS name of a resource of the stack. *logical_id* is the resource's name in template.yaml."""
        request = {"StackName": self.stack, "LogicalResourceId": logical_id}
        found = self.client("cloudformation").describe_stack_resource(**request)["StackResourceDetail"]
        return str(found["PhysicalResourceId"])


def check_identity(deployment: Deployment) -> Iterator[Finding]:
    """Report the caller's identity and region."""
    caller = deployment.client("sts").get_caller_identity()
    region = deployment.session.region_name or "no region"
    yield Finding("identity", State.OK, f"You are {caller['Arn']}, in {region}.")


def check_name(deployment: Deployment) -> Iterator[Finding]:
    """Check that the stack's name is valid, because the names of its queues and streams begin with it."""
    if STACK_NAME.fullmatch(deployment.stack) is None:
        text = f"The stack name {deployment.stack} is not valid: use at most 40 lower-case letters, digits and -."
        yield Finding("name", State.FAULT, text, "Deploy under a shorter name.")


def check_concurrency(deployment: Deployment) -> Iterator[Finding]:
    """Check that the account may run enough Lambda functions at once. The limit of new accounts is low."""
    limit = int(deployment.client("lambda").get_account_settings()["AccountLimit"]["ConcurrentExecutions"])
    waiting, reserved = deployment.parameter("WaitingPerTopic"), deployment.parameter("PullConcurrency")
    if limit < CONCURRENCY_MIN:
        text = f"The account runs {limit} functions at once. Under load publishers get 503, and deliveries wait."
        remedy = (
            "Ask for 1,000, which is free and takes hours to days: aws service-quotas request-service-quota-increase"
            " --service-code lambda --quota-code L-B99A9384 --desired-value 1000"
        )
        yield Finding("concurrency", State.FAULT, text, remedy)
    elif waiting and not reserved and 2 * waiting > limit:
        text = f"{waiting:g} pulls of one topic may wait at once: half of the account's {limit} executions, or more."
        yield Finding("concurrency", State.WARNING, text, "Deploy with PullConcurrency, or a smaller WaitingPerTopic.")
    else:
        yield Finding("concurrency", State.OK, f"The account runs {limit} functions at once.")


def check_stack(deployment: Deployment) -> Iterator[Finding]:
    """Check that the last operation on the stack succeeded."""
    if deployment.described is None:
        text = f"The stack {deployment.stack} does not exist in this region. Checks of a stack were skipped."
        yield Finding("stack", State.WARNING, text, "sam build && sam deploy --guided")
        return
    status = str(deployment.described["StackStatus"])
    if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"):
        yield Finding("stack", State.OK, f"{deployment.stack} is {status}.")
    else:
        remedy = f"aws cloudformation describe-stack-events --stack-name {deployment.stack} says why"
        if status == "ROLLBACK_COMPLETE":  # CloudFormation updates no stack whose creation failed.
            remedy += "; run sam delete before you deploy again"
        elif status == "UPDATE_ROLLBACK_FAILED":
            remedy += f"; then aws cloudformation continue-update-rollback --stack-name {deployment.stack}"
        yield Finding("stack", State.FAULT, f"{deployment.stack} is {status}.", remedy)


def check_tables(deployment: Deployment) -> Iterator[Finding]:
    """Check that both tables respond and delete expired rows."""
    client = deployment.client("dynamodb")
    for logical_id in ("RegistryTable", "MessagesTable"):
        name = deployment.physical_id(logical_id)
        status = client.describe_table(TableName=name)["Table"]["TableStatus"]
        expiry = client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]["TimeToLiveStatus"]
        if status not in ("ACTIVE", "UPDATING"):  # A table stays available during an update.
            yield Finding(logical_id, State.FAULT, f"The table is {status}.", "Wait, or look at its events.")
        elif expiry not in ("ENABLED", "ENABLING"):
            text = "Time to live is off. Rows stay forever, at 0.25 USD per GB and month."
            remedy = f"aws dynamodb update-time-to-live --table-name {name} --time-to-live-specification"
            yield Finding(logical_id, State.WARNING, text, f"{remedy} Enabled=true,AttributeName=ttl")
        else:
            yield Finding(logical_id, State.OK, "The table is active, and expired rows are removed.")


def check_sources(deployment: Deployment) -> Iterator[Finding]:
    """Check that the queue and the streams invoke the functions fan-out, relay and archive."""
    client = deployment.client("lambda")
    for function in ("fan-out", "relay", "archive"):
        name = f"{deployment.stack}-{function}"
        mappings = client.list_event_source_mappings(FunctionName=name)["EventSourceMappings"]
        stopped = [each for each in mappings if each["State"] not in ("Enabled", "Enabling", "Creating", "Updating")]
        if not mappings:
            yield Finding(name, State.FAULT, "Nothing invokes the function.", "Deploy the stack again.")
        for each in stopped:
            remedy = f"aws lambda update-event-source-mapping --uuid {each['UUID']} --enabled"
            yield Finding(name, State.FAULT, f"Its event source is {each['State']}.", remedy)
        # A source whose role is denied stays enabled, and reports the reason here.
        failing = [each for each in mappings if str(each.get("LastProcessingResult", "")).startswith("PROBLEM")]
        for each in failing:
            remedy = f"aws logs tail /tagcast/{deployment.stack}/{function.replace('-', '_')} --since 30m"
            yield Finding(name, State.WARNING, f"Its event source reports {each['LastProcessingResult']}", remedy)
        if mappings and not stopped and not failing:
            yield Finding(name, State.OK, "Its event sources are enabled.")


def check_archive(deployment: Deployment) -> Iterator[Finding]:
    """Check that the archive's Firehose streams are active, and that its bucket has the files of the Glue jobs."""
    firehose = deployment.client("firehose")
    for kind in STREAMS:
        name = f"{deployment.stack}-archive-{kind}"
        stream = firehose.describe_delivery_stream(DeliveryStreamName=name)["DeliveryStreamDescription"]
        if stream["DeliveryStreamStatus"] != "ACTIVE":
            yield Finding(name, State.FAULT, f"The stream is {stream['DeliveryStreamStatus']}.", "Deploy it again.")
    bucket = deployment.output("ArchiveBucketName")
    jobs = deployment.client("s3").list_objects_v2(Bucket=bucket, Prefix="jobs/", MaxKeys=1)
    if jobs.get("KeyCount"):
        yield Finding("archive", State.OK, f"The archive's streams are checked, and {bucket} holds the jobs.")
    else:
        text = f"{bucket} holds no jobs: report and audit fail every night."
        yield Finding("archive", State.WARNING, text, f"make jobs && aws s3 sync dist/jobs s3://{bucket}/jobs")


def check_audit(deployment: Deployment) -> Iterator[Finding]:
    """Check that a nightly audit started within the last ``AUDIT_AGE_MAX``, because no alarm reports a missing audit.

    A stack younger than ``AUDIT_AGE_MAX`` passes. Only the newest 50 runs of the audit job are read.
    """
    runs = deployment.client("glue").get_job_runs(JobName=f"{deployment.stack}-audit", MaxResults=50)["JobRuns"]
    nightly = [each for each in runs if each.get("TriggerName") == f"{deployment.stack}-daily-audit"]
    if nightly and deployment.now() - nightly[0]["StartedOn"] <= AUDIT_AGE_MAX:
        yield Finding("audit", State.OK, f"The last nightly audit started at {nightly[0]['StartedOn']:%F %H:%M %Z}.")
    elif deployment.described and deployment.now() - deployment.described["CreationTime"] <= AUDIT_AGE_MAX:
        yield Finding("audit", State.OK, "The stack is new: its first nightly audit is yet to come.")
    else:
        last = f"since {nightly[0]['StartedOn']:%F %H:%M %Z}" if nightly else "yet"
        remedy = (
            f"aws glue get-trigger --name {deployment.stack}-daily-compact shows its state, start-trigger activates it"
        )
        yield Finding("audit", State.WARNING, f"No nightly audit has run {last}.", remedy)


def check_alarms(deployment: Deployment) -> Iterator[Finding]:
    """Check that no alarm of the stack is active. Alarms of stacks with a longer name, such as NAME-2, do not count."""
    listing = deployment.client("cloudwatch").get_paginator("describe_alarms")
    pages = listing.paginate(AlarmNamePrefix=f"{deployment.stack}-", StateValue="ALARM")
    own = re.compile(rf"{deployment.stack}-[A-Za-z0-9]+-[A-Za-z0-9]+")
    ringing = [each for page in pages for each in page["MetricAlarms"] if own.fullmatch(each["AlarmName"])]
    for alarm in ringing:
        yield Finding(alarm["AlarmName"], State.WARNING, str(alarm.get("AlarmDescription") or "The alarm is active."))
    if not ringing:
        yield Finding("alarms", State.OK, "No alarm is active.")


def check_api(deployment: Deployment) -> Iterator[Finding]:
    """Check that the API responds, and that its clock agrees with this machine's clock."""
    url = deployment.output("Url").rstrip("/")
    status, headers = deployment.get(f"{url}/health")
    if status != 200:
        remedy = f"aws logs tail /tagcast/{deployment.stack}/manage says why"
        yield Finding("API", State.FAULT, f"{url}/health answers {status}.", remedy)
        return
    off_s = (
        abs((deployment.now() - parsedate_to_datetime(headers["date"])).total_seconds()) if "date" in headers else 0.0
    )
    if off_s > SKEW_S_MAX:
        text = f"This machine's clock is {off_s:.0f} s off: AWS refuses signatures that are five minutes off."
        yield Finding("API", State.FAULT, text, "Set the clock.")
    else:
        yield Finding("API", State.OK, f"{url} answers.")


ALWAYS = (check_identity, check_name, check_concurrency, check_stack)
DEPLOYED = (check_tables, check_sources, check_archive, check_audit, check_alarms, check_api)


def examine(deployment: Deployment) -> Iterator[Finding]:
    """Yield the findings of all checks. If the stack does not exist, the checks in ``DEPLOYED`` do not run."""
    for check in ALWAYS:
        yield from _run_check(check, deployment)
    try:
        is_there = deployment.described is not None
    except Exception:  # noqa: BLE001  `check_stack` has reported it.
        return
    for check in DEPLOYED if is_there else ():
        yield from _run_check(check, deployment)


def _run_check(check: Callable[[Deployment], Iterator[Finding]], deployment: Deployment) -> Iterator[Finding]:
    from botocore.exceptions import BotoCoreError, ClientError

    name = check.__name__.removeprefix("check_")
    try:
        yield from check(deployment)
    except ClientError as fault:
        if fault.response["Error"]["Code"] in DENIED:
            text = f"Your identity may not call {fault.operation_name}."
            yield Finding(name, State.UNCHECKED, text, "Allow it the actions of docs/deploy.md, Check it.")
        else:
            yield Finding(name, State.FAULT, str(fault))
    except (BotoCoreError, OSError) as fault:
        yield Finding(name, State.FAULT, str(fault))


STYLES = {State.OK: "green", State.WARNING: "yellow", State.FAULT: "bold red", State.UNCHECKED: "dim"}


def _finding_text(finding: Finding) -> Text:
    remedy = f"\n{'':<12}  → {finding.remedy}" if finding.remedy else ""
    state = (f"{finding.state.value:<12}", STYLES[finding.state])
    return Text.assemble(state, f"  {finding.check}: {visible(finding.detail)}{visible(remedy)}")


def get_url(url: str) -> tuple[int, dict[str, str]]:
    """Return the status and the headers of the answer from *url*. Raises OSError if no answer comes."""
    import httpx

    try:
        answer = httpx.get(url, timeout=10.0)
    except (httpx.HTTPError, httpx.InvalidURL, ImportError, ValueError) as fault:  # Also proxies of the environment.
        raise OSError(f"{url} does not respond: {fault}") from fault
    return answer.status_code, dict(answer.headers)


NO_STACK = (
    "give the name of the stack on AWS, even before its first deployment: tagcast doctor --stack NAME. "
    "To test a local stack: tagcast smoke"
)
NO_CREDENTIALS = "no AWS credentials were found: name a profile (tagcast --profile NAME …) or set AWS_PROFILE"
NO_REGION = (
    "no AWS region is set: give one (tagcast --region eu-west-1 …), set AWS_REGION or AWS_DEFAULT_REGION, "
    "or use a profile with a region (tagcast --profile NAME …)"
)


def own_session(session: Session) -> Any:
    """Return a boto3 session with the caller's profile and region.

    The region comes from ``--region``, the API's address, ``AWS_REGION``, ``AWS_DEFAULT_REGION`` or the profile. Raises
    BadParameter if the profile is unknown, or if no region or no credentials are set.
    """
    import boto3
    from botocore.exceptions import BotoCoreError

    region = session.region or region_of(session.api.url) or os.environ.get("AWS_REGION") or None
    try:
        own = boto3.Session(profile_name=session.profile, region_name=region)
        if not own.region_name:
            raise typer.BadParameter(NO_REGION)
        if own.get_credentials() is None:
            raise typer.BadParameter(NO_CREDENTIALS)
    except BotoCoreError as fault:
        raise typer.BadParameter(str(fault)) from None
    return own


def doctor(
    ctx: typer.Context,
    stack: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the stack on AWS. Required.")] = None,
) -> None:
    """Check a deployment on AWS, or an account before the first deployment. For known faults, print a remedy.

    doctor reads with your own AWS credentials (--profile, --region) and changes nothing. It exits 1 on a fault.
    """
    if stack is None:
        raise typer.BadParameter(NO_STACK)
    session = session_of(ctx)
    own = own_session(session)
    from botocore.exceptions import BotoCoreError

    try:
        findings = list(examine(Deployment(stack, own, get_url)))
    except BotoCoreError as fault:
        raise typer.BadParameter(str(fault)) from None
    if session.as_json:
        session.print_json({"stack": stack, "findings": list(map(asdict, findings))})
    else:
        session.print_lines(map(_finding_text, findings))
    if any(each.state is State.FAULT for each in findings):
        raise typer.Exit(1)

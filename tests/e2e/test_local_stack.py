import json
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

import boto3
import pytest
from botocore.exceptions import ClientError
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.test_disk_faults import started
from tests.running_stack import ROOT, RunningStack, start_stack, wait_until

pytestmark = pytest.mark.e2e


def call(method: str, url: str, body: object = None) -> tuple[int, str, bytes]:
    sent = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, sent, {"content-type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers["content-type"], answer.read()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.headers["content-type"], refused.read()


def test_prometheus_reads_what_the_functions_tell(stack: RunningStack) -> None:
    def told() -> set[str]:
        _, kind, body = call("GET", f"{stack.url}/metrics")
        assert kind == "text/plain; version=0.0.4; charset=utf-8"
        return {family.name for family in text_string_to_metric_families(body.decode())}

    assert wait_until(lambda: "tagcast_oldest_blocked_head_seconds" in told())


def test_state_outlives_the_process_and_nothing_is_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as with_proxy:
        for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"):
            with_proxy.setenv(name, "http://127.0.0.1:9")  # No part of the stack may use it.
        first = start_stack(tmp_path / "data")
    assert call("PUT", f"{first.url}/topics/kept", {})[0] == 201
    assert first.stop(signal.SIGTERM) == 0
    assert not Path(f"/proc/{first.where['engine_pid']}").exists()

    second = start_stack(tmp_path / "data", "--time-scale", "2")
    assert call("GET", f"{second.url}/topics/kept")[0] == 200
    assert second.stop() == 0

    third = start_stack(tmp_path / "data", "--fresh")
    assert call("GET", f"{third.url}/topics/kept")[0] == 404
    assert third.stop() == 0


def test_the_engine_keeps_nothing_of_an_invocation(stack: RunningStack) -> None:
    payload = (ROOT / "events" / "archive_kept.json").read_bytes()
    stack.owner("lambda").invoke(FunctionName="tagcast-archive", Payload=payload)

    logs = stack.owner("logs")
    groups = {group["logGroupName"] for group in logs.describe_log_groups()["logGroups"]}
    assert "/tagcast/tagcast/archive" in groups
    for name in groups - {"/tagcast/tagcast/firehose"}:
        assert logs.describe_log_streams(logGroupName=name)["logStreams"] == []


def test_nobody_else_on_this_machine_reads_what_the_stack_keeps(stack: RunningStack) -> None:
    modes = {path: path.stat().st_mode & 0o777 for path in (stack.folder, *stack.folder.rglob("*"))}
    assert {path.name for path, mode in modes.items() if mode & 0o077} == set()
    assert modes[stack.folder] == 0o700
    assert modes[stack.folder / "stack.json"] == modes[stack.folder / "sam.json"] == 0o600


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example:1"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "null"}],
)
def test_a_page_in_a_browser_reads_and_does_nothing(stack: RunningStack, headers: dict[str, str]) -> None:
    queue = stack.where["outputs"]["QueueUrl"]
    act = f"/?Action=DeleteQueue&Version=2012-11-05&QueueUrl={quote(queue, safe='')}"
    for address in (f"{stack.url}/topics", f"{stack.url}/metrics", f"{stack.engine_url}/", f"{stack.engine_url}{act}"):
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=20)
    assert stack.owner("sqs").get_queue_attributes(QueueUrl=queue)


def test_who_has_no_key_of_the_stack_may_do_nothing_at_the_engine(stack: RunningStack) -> None:
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{stack.engine_url}/_ministack/ready", timeout=20)
    keys = {"aws_access_key_id": "local", "aws_secret_access_key": "local", "region_name": "us-east-1"}
    for service in ("dynamodb", "sqs", "s3"):
        anybody: Any = boto3.client(service, endpoint_url=stack.engine_url, **keys)  # type: ignore[call-overload]
        ask = {"dynamodb": "list_tables", "sqs": "list_queues", "s3": "list_buckets"}[service]
        with pytest.raises(ClientError, match="did not issue this access key"):
            getattr(anybody, ask)()


def test_two_stacks_do_not_share_a_folder(stack: RunningStack) -> None:
    code, said = started(stack.folder)
    assert (code, "another stack runs on" in said) == (1, True)
    assert (stack.folder / "stack.json").exists(), "the running stack is still announced"


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, said = started(tmp_path / "data", "--port", str(port))
    assert (code, f"port {port} of 127.0.0.1 is in use" in said) == (1, True)


def test_a_parameter_with_a_wrong_value_is_a_sentence_and_the_stack_may_be_started_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for given, why in (
        ("PublishUrl=maybe", "Parameter 'PublishUrl' value 'maybe' is not in AllowedValues: ['true', 'false']"),
        ("TopicKnownSeconds=9", "Parameter 'TopicKnownSeconds' must be a number not greater than 5"),
        ("PublishUr=true", "--parameter PublishUr is not in the template; did you mean PublishUrl?"),
    ):
        code, said = started(data, "--parameter", given)
        assert (code, why in said, said.count("\n")) == (1, True, 1), said
    with start_stack(data, "--parameter", "TopicKnownSeconds=1") as stack:
        assert call("GET", f"{stack.url}/health")[0] == 200

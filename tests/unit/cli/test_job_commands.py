"""`tagcast archive`, `report`, …: what they ask of the jobs, and what they say when a job cannot run."""

import io
import json
import re
import sys
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import tagcast_cli.app as command_line
from rich.console import Console
from tagcast_cli import jobs
from tagcast_cli.app import app
from tagcast_cli.job_run import Archive, Days, JobError, JobProgram, Link, Result, run_job
from tagcast_client import Client, SigV4
from typer.testing import CliRunner

from tests.unit.cli.conftest import FakeApi, Run

WHERE = {
    "jobs": {"port": 1, "token": "secret"},
    "stack": "tagcast",
    "owner_environment": {"AWS_ACCESS_KEY_ID": "owner"},
    "engine_url": "http://127.0.0.1:1",
    "outputs": {"ArchiveBucketName": "kept"},
    "time_scale": 10.0,
}


@dataclass
class Jobs:
    """Takes the place of the jobs: each ends at once with what it *found*; notes where it was and what it was asked."""

    code: int = 0
    found: dict[str, Any] = field(default_factory=dict)
    places: list[Archive] = field(default_factory=list)
    asked: list[list[str]] = field(default_factory=list)
    before: list[Link] = field(default_factory=list)

    def __call__(self, name: str, place: Archive, asked: list[str], errors: Console, *, first: Link = ()) -> Result:
        self.places.append(place)
        self.asked.append(asked)
        self.before.append(first)
        return Result({"job": name, **self.found}, self.code)

    def value_of(self, option: str) -> str:
        """What the last job was given for an option."""
        return self.asked[-1][self.asked[-1].index(option) + 1]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    played = Jobs()
    monkeypatch.setattr(jobs, "run_job", played)
    return played


def test_the_archive_of_the_running_stack_is_found_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text(json.dumps(WHERE))

    found = Archive.of_stack(tmp_path)

    assert (found.uri, found.time_scale, found.is_local) == ("s3://kept", 10.0, True)
    assert found.session == WHERE["jobs"]


def test_without_a_running_stack_the_ways_out_are_named(run: Run, tmp_path: Path) -> None:
    refused = run("audit", "--data", str(tmp_path))

    assert refused.exit_code == 1
    assert "make run" in refused.stderr
    assert "--archive" in refused.stderr


@pytest.mark.parametrize("words", [("erase", "--message", "1" * 20), ("retain",)])
def test_a_local_archive_is_compacted_before_its_owner_rewrites_it(
    run: Run, played: Jobs, tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "stack.json").write_text(json.dumps(WHERE))

    for as_is in ((), ("--as-is",)):
        assert run(*words, "--data", str(tmp_path), *as_is).exit_code == 0

    assert [link[:1] for link in played.before] == [["compact"], ()]
    assert {(place.is_local, place.environment["AWS_ACCESS_KEY_ID"]) for place in played.places} == {(False, "owner")}


def test_the_days_are_today_unless_others_are_named() -> None:
    today = datetime.now(UTC).date()
    assert Days.of(None, None) in (Days(today, today + timedelta(1)), Days(today + timedelta(1), today + timedelta(2)))
    assert Days.of("2026-11-01", "2026-11-03") == Days(date(2026, 11, 1), date(2026, 11, 3))
    assert Days.of("2026-11-01", "2026-11-03").arguments() == ["--from", "2026-11-01", "--to", "2026-11-03"]


@pytest.mark.parametrize(
    ("first", "end"), [("1.11.2026", None), ("2026-11-03", "2026-11-03"), (None, "2020-01-01"), ("9999-12-31", None)]
)
def test_days_that_are_none_are_refused(first: str | None, end: str | None) -> None:
    with pytest.raises(ValueError):
        Days.of(first, end)


@pytest.mark.parametrize(
    ("first", "end", "told"),
    [
        ("yesterday", None, "neither a day nor an instant"),
        ("2026-11-20T14:00", None, "write 2026-11-20T14:00Z"),
        ("2026-11-20T14:00Z", "2026-11-20T16:00+02:00", "later than --from"),
    ],
)
def test_a_span_that_is_none_is_a_fault_of_the_command(run: Run, first: str, end: str | None, told: str) -> None:
    to = [] if end is None else ["--to", end]
    refused = run("replay", "t", "A", "--archive", "/nowhere", "--from", first, *to)
    assert (refused.exit_code, told in " ".join(refused.stderr.split())) == (2, True), refused.stderr


def test_days_that_are_none_are_a_fault_of_the_command(run: Run) -> None:
    refused = run("report", "--from", "1.11.2026", "--archive", "/nowhere")
    assert (refused.exit_code, "2026-11-20" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("audit --from yesterday", "'yesterday' is not a day, e.g. 2026-11-20"),
        ("audit --from 1796065674", "'1796065674' is not a day, e.g. 2026-11-20"),
        ("audit --topic t --property customer", "'customer' is not NAME=VALUE"),
        ("erase --topic t --property customer --before 2026-11-01", "'customer' is not NAME=VALUE"),
        ("erase --topic t --property a=1 --before tomorrow", "tomorrow is neither a day nor an instant"),
    ],
)
def test_a_wrong_value_is_refused_before_the_job_starts(run: Run, played: Jobs, words: str, told: str) -> None:
    refused = run(*words.split(), "--archive", "there")

    assert (refused.exit_code, told in refused.stderr, "isoformat" in refused.stderr) == (2, True, False)
    assert played.asked == []


@pytest.mark.parametrize("words", ["backtest t --tag a", "erase --message 07529928016718334518"])
def test_a_job_without_messages_asks_to_check_the_names(run: Run, played: Jobs, words: str) -> None:
    for messages, is_asked in ((0, True), (1, False)):
        played.found = {"messages": messages}
        shown = run(*words.split(), "--archive", "there")
        assert (shown.exit_code, "No archived messages were found. Check" in shown.stdout) == (0, is_asked)


def test_a_job_that_breaks_is_quoted(tmp_path: Path) -> None:
    said = Console(file=io.StringIO())
    with pytest.raises(JobError, match=r"^unknown: --nothing 1$"):
        run_job("compact", Archive(str(tmp_path)), ["--nothing", "1"], said)
    with pytest.raises(JobError, match=f"{tmp_path}/typo is not a folder: give"):
        run_job("compact", Archive(f"{tmp_path}/typo"), [], said)


def test_a_job_says_what_is_no_utf_8_and_ends() -> None:
    program = "import sys; sys.stderr.buffer.write(b'caf\\xe9\\n' + b'x' * 1_000_000); print('{\"job\": \"x\"}')"
    jobs = JobProgram((sys.executable, "-c", program))
    assert jobs.run("x", Archive("s3://b"), [], lambda said: None) == Result({"job": "x"}, 0)


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Configure the AWS profile *me* besides the default."""
    (tmp_path / "credentials").write_text(
        "".join(f"[{each}]\naws_access_key_id={each}\naws_secret_access_key=x\n" for each in ("default", "me"))
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("profile")
def test_a_profile_is_that_of_the_job_and_of_the_download_of_its_report(
    run: Run, played: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("--profile", "me", "report", "--archive", "s3://kept").exit_code == 0
    [place] = played.places
    assert place.environment == {"AWS_PROFILE": "me"}

    keys = list[str]()

    def download(self: Any, bucket: str, key: str, target: str) -> None:
        keys.append(self._request_signer._credentials.access_key)

    monkeypatch.setattr("boto3.s3.inject.download_file", download)
    replace(place, reports=tmp_path).fetch("s3a://kept/reports/report/x/index.html")
    assert keys == ["me"]


@pytest.mark.usefixtures("profile")
@pytest.mark.parametrize(
    "words",
    [
        ("report", "--url", "https://id.execute-api.eu-west-1.amazonaws.com"),
        ("cmq-key", "list", "--stack", "tagcast"),
    ],
    ids=lambda words: words[0],
)
def test_an_unknown_profile_is_named_in_a_sentence(run: Run, words: tuple[str, ...]) -> None:
    refused = run("--profile", "typo", *words)
    assert (refused.exit_code, "The config profile (typo) could not be found" in refused.stderr) == (1, True)


def test_a_report_in_a_folder_is_where_it_is(tmp_path: Path) -> None:
    assert Archive(str(tmp_path)).fetch(f"{tmp_path}/reports/x.html") == tmp_path / "reports/x.html"


@pytest.mark.parametrize("code", [1, 3])
def test_the_exit_code_of_an_audit_is_the_job_s(run: Run, played: Jobs, tmp_path: Path, code: int) -> None:
    played.code, played.found = code, {"violations": 0, "judged": 0}
    result = run("audit", "--archive", str(tmp_path), "--from", "2026-11-01", "--as-of", "2026-11-02T00:00:00Z")
    assert result.exit_code == code
    assert (played.asked[0][-2:], played.before) == (["--as-of", "2026-11-02T00:00:00Z"], [()])
    assert result.output.startswith("Nothing was proved") == (code == 3)


def test_what_a_job_found_is_shown_as_fields_and_tables_and_an_audit_names_its_certificate(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = {"days": ["2026-11-01"], "read_files": 2, "records": 5, "unknown_columns": []}
    found: dict[str, dict[str, object]] = {
        "compact": {"kinds": {"messages": kind, "lanes": {**kind, "records": 7}}},
        "audit": {
            "violations": 2,
            "by_kind": {"never_ended": 2, "orphan": 0},
            "erasures": [{"erasure": "ab", "messages": 3, "asked_by": "me"}],
            "html": f"{tmp_path}/index.html",
            "json": f"{tmp_path}/certificate.json",
        },
    }
    monkeypatch.setattr(jobs, "run_job", lambda name, *_, **__: Result({"job": name, **found[name]}, 0))
    compacted = run("archive", "--archive", str(tmp_path)).output
    assert re.search(r"kind +┃ days +┃ read files +┃ records +┃ unknown columns", compacted)
    assert re.search(r"lanes +│ 2026-11-01 +│ 2 +│ 7 +│ —", compacted)
    audited = run("audit", "--archive", str(tmp_path))
    assert re.search(r"by kind +never ended 2 *\n", audited.stdout)
    assert re.search(r"ab +│ 3 +│ me", audited.stdout)
    assert f"certificate  {tmp_path}/certificate.json" in audited.stderr
    assert "{" not in compacted + audited.output


def test_a_replay_asks_for_the_filter_of_its_subscription(api: FakeApi, run: Run, played: Jobs, tmp_path: Path) -> None:
    played.found = {"messages": 70, "filtered_out": 130}
    api.teach("GET /topics/t/subscriptions/A", {"name": "A", "filter": {"kind": "tags", "tags": ["x"]}})
    result = run("replay", "t", "A", "--archive", str(tmp_path))
    assert json.loads(played.value_of("--filter")) == {"kind": "tags", "tags": ["x"]}
    assert played.value_of("--preview") == "true"
    assert "--only" not in played.asked[0]
    assert "filtered out" in result.output
    outage = ("--from", "2026-11-20T14:00Z", "--to", "2026-11-20T18:00+02:00")
    run("replay", "t", "A", "--archive", str(tmp_path), *outage, "--sql", "customer = '42'", "--send")
    span = [played.value_of("--from"), played.value_of("--to")]
    assert span == ["2026-11-20T14:00:00+00:00", "2026-11-20T16:00:00+00:00"]
    assert json.loads(played.value_of("--only")) == {"kind": "sql92", "expression": "customer = '42'"}


def test_a_replay_to_a_deployment_is_signed_like_the_command_s_own_requests(
    api: FakeApi, run: Run, played: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.teach("GET /topics/t/subscriptions/A", {"name": "A"})
    assert run("replay", "t", "A", "--archive", str(tmp_path)).exit_code == 0
    monkeypatch.setattr(jobs, "is_aws", lambda url: url == api.url)
    assert run("--region", "eu-west-1", "replay", "t", "A", "--archive", str(tmp_path)).exit_code == 0

    here, there = played.asked
    assert there == [*here, "--sign", "true", "--region", "eu-west-1"]


def test_a_replay_to_an_own_domain_is_signed_like_the_command_s_own_requests(
    api: FakeApi, run: Run, played: Jobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    api.teach("GET /topics/t/subscriptions/A", {"name": "A"})
    client = Client(api.url, auth=SigV4(region="eu-west-1"))
    monkeypatch.setattr(command_line, "client_for", lambda *given: client)
    assert run("--region", "eu-west-1", "replay", "t", "A", "--archive", str(tmp_path)).exit_code == 0
    assert played.asked[0][-4:] == ["--sign", "true", "--region", "eu-west-1"]


def test_an_audit_asks_for_the_messages_of_one_customer(run: Run, played: Jobs, tmp_path: Path) -> None:
    run("audit", "--archive", str(tmp_path), "--property", "customer=42")
    assert played.value_of("--property") == "customer=42"


def test_an_address_is_enough_to_find_the_archive_of_its_stack(
    api: FakeApi, run: Run, played: Jobs, tmp_path: Path
) -> None:
    (tmp_path / "stack.json").write_text(json.dumps(WHERE))
    api.teach("GET /stack", {"folder": str(tmp_path)})
    assert run("archive").exit_code == 0
    assert CliRunner().invoke(app, ["archive", "--url", api.url]).exit_code == 0
    assert [(place.uri, place.reports) for place in played.places] == [("s3://kept", tmp_path / "reports")] * 2
    assert "is not the URL of an API" in CliRunner().invoke(app, ["archive", "--url", "http://[::1"]).output


def test_a_deployment_under_its_own_domain_needs_the_uri_of_its_archive(api: FakeApi, run: Run) -> None:
    for answer, status in (({"message": "Forbidden"}, 403), ({"name": "another API"}, 200)):
        api.teach("GET /stack", answer, status)
        told = run("report", "--url", api.url)
        assert (told.exit_code, "is not a local stack; give the archive with --archive" in told.stderr) == (1, True)


def test_a_deployment_that_nobody_knows_is_a_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    told = run("archive", "--url", "https://abc.execute-api.eu-west-1.amazonaws.com")
    assert (told.exit_code, "cannot find the archive of" in told.stderr) == (1, True)

"""What goes wrong is said in words that help, with exit code 1."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from local.cli.app import app
from local.demo.stage import free_port
from tests.unit.cli.conftest import FakeApi, Run

PROBLEM = {
    "type": "about:blank",
    "title": "Invalid subscription",
    "status": 422,
    "detail": "Two values are not allowed.",
    "errors": [
        {"detail": "a tag has 1-64 characters", "pointer": "#/filter/tags/0"},
        {"detail": "is not a URL", "pointer": "#/endpoint/url"},
    ],
}


def test_a_problem_is_shown_with_every_fault_and_its_pointer(api: FakeApi, run: Run) -> None:
    api.teach("PUT /topics/t/subscriptions/A", PROBLEM, 422)
    result = run("subscribe", "t", "A", "--url", "nonsense", "--tag", "")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "Invalid subscription (422)" in result.stderr
    assert "Two values are not allowed." in result.stderr
    assert "#/filter/tags/0  a tag has 1-64 characters" in result.stderr
    assert "#/endpoint/url  is not a URL" in result.stderr


def test_a_problem_is_verbatim_with_json(api: FakeApi, run: Run) -> None:
    api.teach("GET /topics/t", PROBLEM, 422)
    result = run("--json", "topic", "show", "t")
    assert result.exit_code == 1
    assert (result.stdout, json.loads(result.stderr)) == ("", PROBLEM)


def test_a_refusal_of_the_gateway_itself_points_to_the_profile(api: FakeApi, run: Run) -> None:
    api.teach("GET /topics/t", {"message": "Forbidden"}, 403)
    result = run("topic", "show", "t")
    assert result.exit_code == 1
    assert "Forbidden" in result.stderr
    assert "--profile" in result.stderr


def test_a_redirect_is_not_followed(api: FakeApi, run: Run) -> None:
    api.teach("GET /topics/t", "moved", 302)
    result = run("topic", "show", "t")
    assert result.exit_code == 1
    assert len(api.requests) == 1


def test_a_shut_port_asks_whether_the_stack_is_running() -> None:
    result = CliRunner().invoke(app, ["--url", f"http://127.0.0.1:{free_port()}", "health"])
    assert result.exit_code == 1
    assert "Is `make run` running?" in result.stderr


def test_without_credentials_nothing_is_sent_to_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    url = "https://abc.execute-api.eu-west-1.amazonaws.com/prod"
    missing = CliRunner().invoke(app, ["--url", url, "health"])
    assert missing.exit_code == 1
    assert "no AWS credentials found" in missing.stderr
    unknown = CliRunner().invoke(app, ["--url", url, "--profile", "nobody", "health"])
    assert unknown.exit_code == 1
    assert "nobody" in unknown.stderr


def test_help_of_every_command_needs_no_service() -> None:
    for words in (["--help"], ["topic", "--help"], ["filter", "test", "--help"], ["listen", "--help"]):
        assert CliRunner().invoke(app, words).exit_code == 0


def test_an_address_without_a_scheme_is_refused() -> None:
    assert CliRunner().invoke(app, ["--url", "localhost:8080", "health"]).exit_code == 2

"""What goes wrong is said in words that help, with exit code 1."""

import json
import socket
import ssl
import threading
import time
from contextlib import suppress
from pathlib import Path
from urllib.request import proxy_bypass

import pytest
from tagcast_aws.runtime.version import VERSION
from tagcast_cli import bypass_proxies, screen
from tagcast_cli.api_client import client_for, waiting_noted
from tagcast_cli.app import app
from tagcast_cli.doctor import get_url
from tagcast_client import BearerToken, SigV4
from typer.testing import CliRunner

from local.engine.engine import free_port
from tests.unit.cli.conftest import SUBSCRIPTION, FakeApi, Run

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
    result = run("subscribe", "t", "A", "--url", "https://nonsense:x", "--tag", "")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "Invalid subscription (422)" in result.stderr
    assert "Two values are not allowed." in result.stderr
    assert "#/filter/tags/0  a tag has 1-64 characters" in result.stderr
    assert "#/endpoint/url  is not a URL" in result.stderr


def test_unsubscribing_a_name_of_dots_deletes_no_topic(api: FakeApi, run: Run) -> None:
    api.teach("DELETE /topics/t", status=204)
    api.teach("DELETE /topics/t/", status=204)
    result = run("unsubscribe", "t", "..")
    assert result.exit_code == 1
    assert "'..' is not the name of a topic or a subscription" in result.stderr
    assert api.requests == []


def test_a_body_in_the_place_of_a_topic_is_refused_in_a_few_words(api: FakeApi, run: Run) -> None:
    result = run("publish", "x" * 70_000, "fruit")
    assert result.exit_code == 1
    assert f"'{'x' * 20}…' is not the name of a topic" in result.stderr
    assert api.requests == []


@pytest.mark.parametrize(
    ("status", "said", "option", "is_named"),
    [
        (403, "Forbidden", "--profile", True),
        (413, "Request Entity Too Large", "--url", False),
        (429, "Too Many Requests", "--url", False),
    ],
)
def test_a_refusal_of_the_gateway_itself_points_to_the_profile_and_does_not_blame_the_address(
    api: FakeApi, run: Run, status: int, said: str, option: str, is_named: bool
) -> None:
    api.teach("GET /topics/t", {"message": said}, status)
    result = run("topic", "show", "t")
    assert result.exit_code == 1
    assert (said in result.stderr, option in result.stderr) == (True, is_named)


def test_a_redirect_is_not_followed(api: FakeApi, run: Run) -> None:
    api.teach("GET /topics/t", "moved", 302)
    result = run("topic", "show", "t")
    assert result.exit_code == 1
    assert len(api.requests) == 1


def test_a_shut_port_asks_whether_the_stack_is_running() -> None:
    result = CliRunner().invoke(app, ["--url", f"http://127.0.0.1:{free_port()}", "health"])
    assert result.exit_code == 1
    assert "Start the local stack with `make run`" in result.stderr


def test_a_proxy_that_needs_another_package_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:9")
    result = CliRunner().invoke(app, ["--url", "https://tagcast.example", "topic", "list"])
    assert result.exit_code == 1
    assert "the proxy settings of the environment (ALL_PROXY, NO_PROXY, …) do not work" in result.stderr
    with pytest.raises(OSError, match="does not respond"):
        get_url("https://tagcast.example/health")


@pytest.mark.parametrize("known", ["", "internal.example", "*"])
def test_proxies_are_bypassed_on_this_machine_and_where_they_were(monkeypatch: pytest.MonkeyPatch, known: str) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, known)
    bypass_proxies()
    bypassed = [proxy_bypass(host) for host in ("127.0.0.1:8080", "localhost", "internal.example", "other.example")]
    assert list(map(bool, bypassed)) == [True, True, known != "", known == "*"]


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


def test_a_profile_signs_for_an_own_domain_but_not_for_a_local_stack() -> None:
    domain, stack = "https://tagcast.example", "http://127.0.0.1:8080"
    assert isinstance(client_for(domain, "me", None).auth, SigV4)
    assert isinstance(client_for(domain, None, "eu-west-1").auth, SigV4)
    assert isinstance(client_for(domain, "me", None, "token").auth, BearerToken)
    assert client_for(domain, None, None).auth is None
    assert client_for(stack, "me", "eu-west-1").auth is None


def test_the_version_is_told() -> None:
    assert CliRunner().invoke(app, ["--version"]).output == f"tagcast {VERSION}\n"


def test_mistakes_in_an_address_are_told_apart(api: FakeApi, run: Run) -> None:
    api.teach("GET /health", "<!doctype html><html>")
    assert "serves web pages" in run("health").stderr
    api.teach("DELETE /topics/t", "<!doctype html><html>")
    deleted = run("topic", "delete", "t")
    assert (deleted.exit_code, deleted.stdout, "serves web pages" in deleted.stderr) == (1, "", True)
    api.teach("GET /topics/t", "<h1>nothing here</h1>", 404)
    assert "not from the tagcast API" in run("topic", "show", "t").stderr
    api.teach("GET /topics/t", "<html>bad gateway</html>", 502)
    shown = run("topic", "show", "t").stderr
    assert shown.startswith("error: HTTP 502\n")
    api.teach("GET /topics/t", {"title": "Of another service", "detail": None, "errors": {"a": 1}}, 404)
    assert "not from the tagcast API" in run("topic", "show", "t").stderr
    assert "not from the tagcast API" in shown
    detail = "the path does not exist; GET /openapi.json lists the paths"
    told = {"type": "about:blank", "code": "not_found", "title": "Not Found", "status": 404, "detail": detail}
    api.teach("GET /topics/t", told, 404)
    assert "Check --url for an extra path." in run("topic", "show", "t").stderr
    over_tls = CliRunner().invoke(app, ["--url", api.url.replace("http:", "https:"), "health"])
    assert "Try http:// instead of https://." in over_tls.stderr
    for wrong in ("localhost:8080", "http://", "http://[::1", "http://a:99999", "http://a b", "http://a/?b"):
        assert CliRunner().invoke(app, ["--url", wrong, "health"]).exit_code == 2


def test_a_server_that_refuses_tls_is_not_said_to_have_none() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def refuse() -> None:
            accepted, _ = listening.accept()
            with accepted, suppress(ssl.SSLError):
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).wrap_socket(accepted, server_side=True)  # No certificate.

        threading.Thread(target=refuse, daemon=True).start()
        url = f"https://127.0.0.1:{listening.getsockname()[1]}"
        result = CliRunner().invoke(app, ["--url", url, "health"])
    assert result.exit_code == 1
    assert "TLS failed. Check --url or TAGCAST_URL: [SSL: " in result.stderr
    assert "http://" not in result.stderr.replace(url, "")


@pytest.mark.parametrize(
    ("route", "words"),
    [
        ("GET /health", "health"),
        ("GET /topics?limit=50", "topic list"),
        ("GET /topics/t", "topic show t"),
        ("POST /topics/t/messages", "publish t x"),
        ("POST /topics/t/messages/batch", "publish t x --count 2"),
    ],
)
@pytest.mark.parametrize("page", ["<!doctype html><html>Log in", "<html>Log in", "Log in"])
def test_a_page_of_a_proxy_is_an_error_and_not_printed_as_json(
    api: FakeApi, run: Run, route: str, words: str, page: str
) -> None:
    api.teach(route, page)
    result = run(*words.split(), "--json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "not the API" in result.stderr or "is not the tagcast API" in result.stderr


@pytest.mark.parametrize("answer", [{"message_id": "1", "matched": 0, "topics": []}, [], None])
@pytest.mark.parametrize("words", ["topic list", "topic show t", "publish t x", "publish t x --count 2", "pause t A"])
def test_an_answer_of_another_server_is_not_taken_for_a_success(
    api: FakeApi, run: Run, words: str, answer: object
) -> None:
    api.headers = {}
    for route in ("GET /topics?limit=50", "GET /topics/t", "POST /topics/t/messages"):
        api.teach(route, answer)
    api.teach("POST /topics/t/messages/batch", answer)
    api.teach("POST /topics/t/subscriptions/A/pause", answer)
    result = run(*words.split())
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"The server at {api.url} is not the tagcast API" in result.stderr


def test_words_in_the_wrong_order_propose_the_right_one(run: Run) -> None:
    for words, proposed in (
        ("create topic fruit", "'topic create'"),
        ("promote fruit shop", "'shadow promote'"),
        ("update", "'topic update' or 'subscription update'"),
        ("topics", "'topic'"),
    ):
        refused = run(*words.split())
        said = " ".join(refused.stderr.replace("│", " ").split())
        assert (refused.exit_code, f"Did you mean {proposed}?" in said) == (2, True), said


def test_a_server_that_is_waited_for_is_named_in_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for is_terminal in (True, False):
        monkeypatch.setattr("sys.stderr.isatty", lambda is_terminal=is_terminal: is_terminal)
        with waiting_noted("http://there", after_s=0.0):
            time.sleep(0.2)
        assert ("Waiting for an answer from http://there" in capsys.readouterr().err) == is_terminal
    with waiting_noted("http://there"):
        pass
    assert capsys.readouterr().err == ""


def test_every_fault_is_told_in_json_to_a_program() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    result = CliRunner().invoke(app, ["--url", url, "--json", "health"])
    assert (result.exit_code, result.stdout) == (1, "")
    told = json.loads(result.stderr)
    assert told["title"] == f"no response from {url}"
    assert told["detail"].startswith("Start the local stack with `make run`")


@pytest.mark.parametrize(
    ("words", "tag"),
    [("publish t x --tag eu,us", "eu,us"), ("subscribe t A --url http://h/ --tag a --tag b,c", "b,c")],
)
def test_a_comma_in_a_tag_is_a_warning_because_it_seldom_is_meant(api: FakeApi, run: Run, words: str, tag: str) -> None:
    api.teach("POST /topics/t/messages", {"message_id": "1", "matched": 1}, 201)
    api.teach("PUT /topics/t/subscriptions/A", SUBSCRIPTION, 201)
    told = run("--json", *words.split())
    assert (told.exit_code, f"'{tag}' is one tag" in told.stderr) == (0, True)
    assert "is one tag" not in run("--json", *words.replace(",", "").split()).stderr


def test_a_page_of_a_proxy_that_refuses_is_told_in_json(api: FakeApi, run: Run) -> None:
    api.teach("GET /topics/t", "<h1>Proxy login required</h1>", 407)
    result = run("--json", "topic", "show", "t")
    assert result.exit_code == 1
    assert json.loads(result.stderr) == {
        "title": "HTTP 407",
        "status": 407,
        "detail": "<h1>Proxy login required</h1>",
    }


@pytest.mark.parametrize(
    ("words", "option", "allowed"),
    [
        (
            "subscribe t A --strategy BACKOFF",
            "--strategy",
            "'BACKOFF_RETRY', 'EXPONENTIAL_DECAY_RETRY', 'INDEPENDENT_RETRY'",
        ),
        ("topic create t --ordering no", "--ordering", "'topic', 'key', 'none'"),
        ("lanes --by no", "--by", "'host', 'topic', 'subscription', 'state', 'outcome'"),
    ],
)
def test_a_word_that_an_option_does_not_know_is_refused_with_those_that_it_knows(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: str, option: str, allowed: str
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    refused = run(*words.split())
    given = words.rsplit(" ", 1)[1]
    assert refused.exit_code == 2
    assert f"Invalid value for '{option}': '{given}' is not one of {allowed}." in refused.stderr


def test_a_token_that_no_header_can_hold_is_refused_and_not_printed() -> None:
    refused = CliRunner().invoke(app, ["--token", "secret\n4711", "health"])
    assert (refused.exit_code, "4711" in refused.output) == (2, False)


def test_an_empty_token_is_refused_only_where_it_is_given(api: FakeApi, run: Run) -> None:
    api.teach("GET /health", {"status": "ok", "version": "1"})
    assert run("--token", "", "health").exit_code == 2
    assert CliRunner().invoke(app, ["--url", api.url, "health"], env={"TAGCAST_TOKEN": ""}).exit_code == 0


def test_a_command_that_goes_on_warns_of_a_token_in_the_list_of_processes(api: FakeApi) -> None:
    for words in ("tail t", "consume t g"):
        given = CliRunner().invoke(app, ["--url", api.url, "--token", "s3cret", *words.split()])
        assert "Set TAGCAST_TOKEN instead" in given.stderr
        assert "s3cret" not in given.output
        kept = CliRunner().invoke(app, ["--url", api.url, *words.split()], env={"TAGCAST_TOKEN": "s3cret"})
        assert "TAGCAST_TOKEN" not in kept.stderr
    once = CliRunner().invoke(app, ["--url", api.url, "--token", "s3cret", "health"])
    assert "TAGCAST_TOKEN" not in once.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("publish", "t", "x", "--count", "07529928016718334518"),
        ("filter", "set", "t", "A", "--filter", "[" * 5_000),
        ("shadow", "set", "t", "A", "--event-pattern", '{"a":' * 5_000),
        ("subscribe-all", "t", "[" * 5_000),
    ],
    ids=["an id as count", "a deep filter", "a deep pattern", "deep subscriptions"],
)
def test_a_value_out_of_all_bounds_is_refused_before_anything_is_sent(
    api: FakeApi, run: Run, words: tuple[str, ...]
) -> None:
    refused = run(*words)
    assert (refused.exit_code, api.requests) == (2, [])
    assert "Invalid value" in refused.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("subscribe", "t", "A", "--pull", "--event-pattern", '{"store": ["a"], "price": [1], "store": ["b"]}'),
        ("filter", "test", "--event-pattern", '{"d": {"store": [1], "store": [2]}}', "{}"),
        ("filter", "set", "t", "A", "--filter", '{"kind": "sql92", "store": 1, "store": 2}'),
        ("subscribe-all", "t", '[{"name": "A", "filter": {"store": 1, "store": 2}}]'),
    ],
    ids=["subscribe", "filter test", "filter set", "subscribe-all"],
)
def test_a_repeated_name_is_refused_and_not_dropped(api: FakeApi, run: Run, words: tuple[str, ...]) -> None:
    refused = run(*words)
    assert (refused.exit_code, api.requests) == (2, [])
    assert '"store" is given twice' in " ".join(refused.stderr.replace("│", " ").split())


def test_what_cannot_be_read_is_a_sentence(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "stack.json").mkdir()
    told = run("audit", "--data", str(folder))
    assert (told.exit_code, "Is a directory" in told.stderr, "Traceback" in told.output) == (1, True, False)


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_tables_fit_and_cut_no_id(api: FakeApi, run: Run, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr(screen, "PIPE_WIDTH", width)
    at = "2099-05-01T12:00:00.000Z"
    ids = ["07530555461566182949", "07530555461566182950"]
    names = ["billing-of-a-very-long-name-" + "x" * 36, "b"]
    heads = [{"message_id": each, "attempts": 3, "next_attempt_at": at, "expires_at": at} for each in ids]
    listed = [
        {"topic": "orders", "subscription": name, "state": "lost_contact", "head": head | {"last_outcome": "http 500"}}
        for name, head in zip(names, heads, strict=True)
    ]
    api.teach("GET /lanes?limit=20", {"lanes": listed, "next_cursor": None})
    output = run("lanes").output
    assert all(whole in output for whole in (*ids, "lost contact", "http 500", "b"))
    assert max(map(len, output.splitlines())) <= width


def test_names_are_completed_as_the_api_knows_them(api: FakeApi) -> None:
    api.teach("GET /topics?limit=100", {"topics": [{"name": "orders"}, {"name": "bills"}], "next_cursor": "c"})
    api.teach("GET /topics?limit=100&cursor=c", {"topics": [{"name": "orders-eu"}], "next_cursor": None})
    api.teach("GET /topics/t/subscriptions?limit=100", {"subscriptions": [{"name": "A"}], "next_cursor": None})

    def completed(words: str) -> list[str]:
        asked = {
            "_TAGCAST_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        }
        told = CliRunner().invoke(app, [], env={**asked, "TAGCAST_URL": api.url}, prog_name="tagcast")
        return told.output.split()

    assert completed("tagcast topic show or") == ["orders", "orders-eu"]
    assert completed("tagcast lane t ") == ["A"]
    assert completed("tagcast lane none ") == []

"""Whatever producers and receivers write, the terminal is told nothing by it."""

import io
import json

import pytest
from tagcast_cli import app
from tagcast_cli.listen import _push_json, push_line
from tagcast_cli.receiver import Push, Reply
from tagcast_cli.session import Session
from tagcast_client import Client

from tests.unit.cli.conftest import FakeApi, Run

ID = "01747000000000000001"
HOSTILE = "\x1b]0;owned\x07\x9b2J\u202e\rdeleted\x00\x7f"
ACTING = set(HOSTILE) - set("]0;owned2Jdeleted")
MESSAGE = {
    "message_id": ID,
    "state": "retained",
    "body": HOSTILE,
    "tags": [HOSTILE],
    "properties": {"name": HOSTILE},
    "routing_key": HOSTILE,
    "content_type": HOSTILE,
    "subscribers": {"A": {"state": "blocked", "attempts": 1, "last_outcome": HOSTILE}},
}


def acting(output: str) -> set[str]:
    """The characters of *output* that act on a terminal and came from the message."""
    return set(output) & ACTING


@pytest.mark.parametrize("words", [("message", "test1", ID), ("--json", "message", "test1", ID)])
def test_a_message_prints_none_of_its_control_characters(api: FakeApi, run: Run, words: tuple[str, ...]) -> None:
    api.teach(f"GET /topics/test1/messages/{ID}", json.dumps(MESSAGE, ensure_ascii=False))
    output = run(*words).output
    assert not acting(output)
    assert "owned" in output


def test_json_for_programs_still_means_what_the_api_said(api: FakeApi, run: Run) -> None:
    api.teach(f"GET /topics/test1/messages/{ID}", json.dumps(MESSAGE, ensure_ascii=False))
    assert json.loads(run("--json", "message", "test1", ID).output) == MESSAGE


def test_lists_trees_and_faults_print_none_either(api: FakeApi, run: Run) -> None:
    api.teach("GET /topics/test1/messages?limit=50", {"messages": [MESSAGE], "next_cursor": None})
    why = {"reason": HOSTILE, "filter": {"text": HOSTILE, "value": HOSTILE, "note": HOSTILE, "seen": [HOSTILE]}}
    api.teach(f"GET /topics/test1/messages/{ID}/explain?subscription=A", why)
    problem = {"title": HOSTILE, "detail": HOSTILE, "errors": [{"pointer": HOSTILE, "detail": HOSTILE}]}
    api.teach("GET /topics/gone", problem, 404)
    for words in (("messages", "test1"), ("explain", "test1", ID, "-s", "A"), ("topic", "show", "gone")):
        output = run(*words).output
        assert not acting(output)
        assert "owned" in output


def test_a_received_push_prints_none_either(capsys: pytest.CaptureFixture[str]) -> None:
    push = Push(HOSTILE, HOSTILE, HOSTILE, "1", 1, 1, json.dumps([HOSTILE]), HOSTILE.encode())
    line = push_line(push, Reply(), None).plain
    assert not acting(line)
    assert "\n" not in line
    Session(Client("http://127.0.0.1:8080"), as_json=True).print_json(_push_json(push, Reply()))
    printed = capsys.readouterr().out
    assert not acting(printed)
    assert json.loads(printed)["topic"] == HOSTILE


def test_a_line_break_in_a_tag_makes_no_line_of_its_own(api: FakeApi, run: Run) -> None:
    message = MESSAGE | {"tags": ["a\nstate  deleted"], "body": "first\nsecond"}
    api.teach(f"GET /topics/test1/messages/{ID}", message)
    lines = [line.strip() for line in run("message", "test1", ID).output.splitlines()]
    assert "second" in lines
    assert not any(line.startswith("state") and "deleted" in line for line in lines)


def test_an_output_that_the_shell_closed_is_no_traceback(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    api.teach("GET /topics?limit=50", {"topics": [], "next_cursor": None})
    monkeypatch.setattr("sys.argv", ["tagcast", "--url", api.url, "topic", "list"])
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(f"sys.{name}", None)

    with pytest.raises(SystemExit) as ended:
        app.main()

    assert ended.value.code == 0


@pytest.mark.parametrize(("encoding", "letter"), [("latin-1", "é"), ("ascii", "\\u00e9"), ("utf-8", "é")])
def test_an_output_without_all_letters_gets_them_as_escapes_that_json_has_too(
    monkeypatch: pytest.MonkeyPatch, encoding: str, letter: str
) -> None:
    output = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr("sys.stdout", output)
    monkeypatch.setattr(app, "app", lambda: print(json.dumps("é — 😀", ensure_ascii=False), flush=True))

    app.main()

    printed = output.buffer.getvalue().decode(encoding)
    assert (json.loads(printed), letter in printed) == ("é — 😀", True)

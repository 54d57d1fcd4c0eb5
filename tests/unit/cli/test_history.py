"""`tagcast history`: what is asked of the API, and what is shown of its answer."""

import json
from typing import Any
from urllib.parse import parse_qsl

import pytest

from tests.unit.cli.conftest import FakeApi, Run

ID = "07531670506420906725"


def page(**more: Any) -> dict[str, Any]:
    message = {
        "message_id": ID,
        "accepted_at": "2026-11-27T10:00:00.000Z",
        "tags": ["paid"],
        "counts": {"delivered": 2},
    }
    answer = {"messages": [message], "next_cursor": None, "archived_until": "2026-11-27T10:00:01.000Z"}
    return answer | more


def answer(api: FakeApi, monkeypatch: pytest.MonkeyPatch, told: dict[str, Any]) -> None:
    """Answer whatever instant the history begins at."""
    monkeypatch.setattr(api, "answer_to", lambda method, path: (200, "application/json", json.dumps(told)))


def test_a_history_asks_for_what_is_named_and_says_how_far_the_archive_is(
    api: FakeApi, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(api, monkeypatch, page(next_cursor="abc"))
    result = run("history", "t", "--tag", "paid", "--property", "a=b", "--state", "delivered", "--subscription", "s")

    [request] = api.requests
    asked = dict(parse_qsl(request.path.partition("?")[2]))
    assert asked.pop("since")
    assert asked == {"tag": "paid", "property": "a=b", "state": "delivered", "subscription": "s", "limit": "50"}
    for shown in (ID, "2: 2 delivered", "Archived until", "--cursor abc"):
        assert shown in result.output


def test_an_empty_page_before_the_last_is_told_from_an_empty_history(
    api: FakeApi, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(api, monkeypatch, page(messages=[], archived_until=None))
    shown = run("history", "t").output
    assert "No messages." in shown
    assert "Nothing is archived yet." in shown
    answer(api, monkeypatch, page(messages=[], next_cursor="abc"))
    assert "No messages on this page." in run("history", "t").output

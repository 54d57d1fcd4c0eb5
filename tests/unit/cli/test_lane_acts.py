"""`tagcast lanes retry|pause|resume|skip`: a preview, a question, progress, and a summary of every lane."""

import json
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import wait
from typing import Any

import httpx
import pytest
import tagcast_cli.app
from tagcast.operating import lanes
from tagcast_cli import lane_acts
from tagcast_cli.app import app
from tagcast_client import Client, Retries
from typer.testing import CliRunner, Result

from tests.clients.in_memory_api import InMemoryApi
from tests.fakes.world import FAIL

COUNT = 25
"""More lanes than one request acts on, and more than the preview names."""


class Api(InMemoryApi):
    """Serves one request at a time; *befall* is called with the number of every request that acts."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()
        self.acts: list[dict[str, Any]] = []
        self.befall: Callable[[int], httpx.Response | None] = lambda number: None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with self.lock:
            asked = json.loads(request.content or b"{}")
            if request.method == "POST" and "lanes" in asked:
                self.acts.append(asked)
                if (instead := self.befall(len(self.acts))) is not None:
                    return instead
            return super().handle_request(request)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    """Two topics; `even` has 13 blocked lanes, `odd` has 12, each with two messages."""
    api = Api()
    for topic in ("even", "odd"):
        api.fakes.topic(topic)
    for number in range(COUNT):
        name = f"s{number:02}"
        api.fakes.subscribe(name, topic="odd" if number % 2 else "even")
        api.fakes.pusher.behaviours[name] = lambda push: FAIL
    for topic in ("even", "odd"):
        api.fakes.publish("first", "second", topic=topic)
    api.fakes.deliver()
    api.fakes.clock.sleep(1)

    def client(url: str, profile: str | None, region: str | None, token: str | None) -> Client:
        return Client("http://api.test", transport=api, retries=Retries(seconds=0))

    monkeypatch.setattr(tagcast_cli.app, "client_for", client)
    return api


def run(*words: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["lanes", *words], input=stdin)


def states(api: Api) -> Counter[str]:
    client = Client("http://api.test", transport=api)
    listed = [each.lane for topic in ("even", "odd") for each in client.list_subscriptions(topic)]
    return Counter(lane.state for lane in listed if lane is not None)


def test_the_preview_says_how_many_lanes_of_how_many_topics_and_changes_nothing(api: Api) -> None:
    told = run("pause", "--dry-run").output

    assert "Pause 25 lanes in 2 topics" in told
    assert "No attempts are made until you resume these lanes." in told
    assert "… and 15 more lanes." in told
    assert "Continue?" not in told
    assert (api.acts, states(api)) == ([], {"blocked": COUNT})


def test_without_a_yes_nothing_is_done(api: Api) -> None:
    refused = run("pause", stdin="n\n")
    assert "Continue?" in refused.output
    assert (refused.exit_code, api.acts) == (1, [])
    assert run("pause", stdin="y\n").exit_code == 0
    assert states(api) == {"paused": COUNT}


def test_all_lanes_of_all_parts_are_acted_on_once(api: Api) -> None:
    done = run("retry", "--yes")

    assert (done.exit_code, "25 lanes: 25 done, 0 unchanged, 0 failed." in done.output) == (0, True)
    named = [lane["subscription"] for act in api.acts for lane in act["lanes"]]
    assert sorted(named) == [f"s{number:02}" for number in range(COUNT)]
    assert len(api.acts) == 3


def test_acts_choose_lanes_by_the_options_of_the_list(api: Api) -> None:
    for options in (["--topic", "odd"], ["--text", "ODD / "], ["--topic", "odd", "--state", "blocked"]):
        assert "Retry 12 lanes in 1 topic" in run("retry", "--dry-run", *options).output
        assert len(json.loads(run(*options, "--json").output)["lanes"]) == 12
    for options in (["--outcome", "http 503"], ["--host", "http://nowhere"], ["--state", "paused"]):
        assert "No lanes match." in run("retry", "--dry-run", *options).output
        assert "No lanes match." in run(*options).output
    assert "Retry 1 lane in 1 topic" in run("retry", "--dry-run", "--host", "http://s07.test/").output


def test_options_in_front_of_an_act_are_refused_because_the_act_would_not_read_them(api: Api) -> None:
    refused = run("--topic", "odd", "pause", "--yes")
    assert (refused.exit_code, api.acts) == (2, [])
    assert "give the options after pause" in refused.output


def test_a_skip_cancels_only_the_heads_of_its_preview(api: Api) -> None:
    def overtake(number: int) -> None:
        if number == 1:
            lanes.skip_head(api.fakes.world, "odd", "s07", "earlier")

    api.befall = overtake
    done = run("skip", "--reason", "wrong", "--topic", "odd", stdin="y\n")

    assert "The head of each lane is cancelled permanently: 12 messages." in done.output
    assert "12 lanes: 11 done, 1 unchanged, 0 failed." in done.output
    assert "unchanged: odd / s07: the head of subscription s07 is" in done.output
    assert done.exit_code == 0
    backlogs = [lanes.backlog(api.fakes.world, "odd", f"s{n:02}", 9, None).items for n in range(1, COUNT, 2)]
    assert [len(each) for each in backlogs] == [1] * 12


def test_a_request_that_fails_fails_its_lanes_and_no_others(api: Api) -> None:
    problem = {"title": "Service Unavailable", "status": 503, "code": "unavailable", "detail": "no time"}
    refused = list[int]()

    def refuse(number: int) -> httpx.Response | None:
        """Refuse the first request of ten lanes that comes second or later: requests overtake each other."""
        if number == 1 or refused or len(api.acts[-1]["lanes"]) < 10:
            return None
        refused.append(number)
        return httpx.Response(503, json=problem)

    api.befall = refuse
    done = run("pause", "--yes")

    assert (done.exit_code, "25 lanes: 15 done, 0 unchanged, 10 failed." in done.output) == (1, True)
    assert states(api) == {"paused": 15, "blocked": 10}


def test_lanes_whose_state_does_not_allow_the_act_are_counted_with_the_reason(api: Api) -> None:
    lanes.pause(api.fakes.world, "odd", "s07")
    told = run("retry", "--dry-run").output
    assert "Retry 24 lanes" in told
    assert "1 matching lane will not change: the lane is paused; resume it first" in told
    assert "Resume 1 lane in 1 topic" in run("resume", "--dry-run").output


def test_an_interrupt_stops_behind_the_requests_under_way(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_acts, "AT_ONCE", 1)
    is_first = [True]

    def interrupted(running: Any, **settings: Any) -> Any:
        if is_first.pop() if is_first else False:
            raise KeyboardInterrupt
        return wait(running, **settings)

    monkeypatch.setattr("tagcast_cli.lane_acts.wait", interrupted)
    done = run("pause", "--yes")

    assert done.exit_code == lane_acts.INTERRUPTED
    assert "Stopped: 10 done, 0 unchanged, 0 failed, 15 not started." in done.output
    assert states(api) == {"paused": 10, "blocked": 15}


def test_json_is_the_answers_of_the_api(api: Api) -> None:
    assert run("pause", "--json").exit_code == 2
    preview = json.loads(run("pause", "--json", "--dry-run").output)
    assert (preview["planned"], preview["next_cursor"]) == (COUNT, None)
    answers = list(map(json.loads, run("pause", "--json", "--yes").output.splitlines()))
    assert [answer["changed"] for answer in answers] in ([10, 10, 5], [10, 5, 10], [5, 10, 10])


def test_elsewhere_than_in_a_terminal_progress_is_a_line_now_and_then(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_acts, "PROGRESS_EVERY_S", 0.0)
    done = run("pause", "--yes")
    assert "25 of 25: 25 done, 0 unchanged, 0 failed" in done.output

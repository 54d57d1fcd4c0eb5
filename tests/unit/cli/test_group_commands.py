"""Groups in the terminal: who is there, and a consumer that prints what it gets."""

import json
import re

import pytest
import tagcast_cli.app as command_line
from tagcast_cli.session import Session
from tagcast_client import Client, Filter
from typer.testing import CliRunner

from tests.clients.pulling_api import PullingApi
from tests.unit.cli.conftest import Run

TAG_A = Filter.tag_expression("TagA")


@pytest.fixture
def api() -> PullingApi:
    return PullingApi()


@pytest.fixture
def client(api: PullingApi) -> Client:
    api.client.create_topic("orders")
    return api.client


@pytest.fixture
def run(api: PullingApi, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setattr(command_line, "client_for", lambda *given: api.client)
    return lambda *words: CliRunner().invoke(command_line.app, [*words])


def test_a_consumer_prints_what_it_gets_and_acknowledges_it(api: PullingApi, client: Client, run: Run) -> None:
    client.create_subscription("orders", "workers", {"protocol": "pull"}, filter=TAG_A)
    api.put("orders", "hello", "world")
    result = run("consume", "orders", "workers", "--tag-expression", "TagA", "--member-id", "me", "--stop-after", "2")
    assert result.exit_code == 0, result.output
    assert "Joining workers of orders as me" in result.output
    assert [line.rpartition(" ")[2] for line in result.output.splitlines()[1:]] == ["hello", "world"]
    assert "attempt 1 done [TagA] hello" in result.output
    assert api.done("orders") == ["hello", "world"]
    assert client.list_members("orders", "workers") == ()


def test_a_pulled_body_that_looks_like_an_envelope_is_shown_as_it_is(api: PullingApi, client: Client, run: Run) -> None:
    client.create_subscription("orders", "workers", {"protocol": "pull"})
    api.put("orders", '{"message_id": "abc", "price": 5}')
    result = run("consume", "orders", "workers", "--stop-after", "1")
    assert 'attempt 1 done [TagA] {"message_id": "abc", "price": 5}' in result.output


def test_what_a_consumer_cannot_print_is_not_acknowledged(
    api: PullingApi, client: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exits(session: Session, value: object) -> None:
        monkeypatch.undo()  # Rich prints nowhere from now on.
        raise SystemExit(1)

    client.create_subscription("orders", "workers", {"protocol": "pull"}, filter=TAG_A)
    api.put("orders", "hello")
    monkeypatch.setattr(Session, "print_json", exits)
    result = run("--json", "consume", "orders", "workers", "--tag-expression", "TagA", "--member-id", "me")
    assert (result.exit_code, api.done("orders")) == (1, [])
    assert api.asked_for("nack")
    assert client.list_members("orders", "workers") == ()


def test_a_consumer_that_is_interrupted_in_its_first_heartbeat_leaves_in_order(
    api: PullingApi, client: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: Client, *given: object, **settings: object) -> None:
        heartbeat(self, *given, **settings)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    heartbeat = Client.heartbeat
    monkeypatch.setattr(Client, "heartbeat", interrupt)
    result = run("consume", "orders", "workers", "--member-id", "me")
    assert (result.exit_code, "Leaving the group" in result.output) == (0, True)
    assert client.list_members("orders", "workers") == ()


def test_as_json_each_message_is_an_object(api: PullingApi, client: Client, run: Run) -> None:
    client.create_subscription("orders", "workers", {"protocol": "pull"})
    api.put("orders", "hello")
    result = run("--json", "consume", "orders", "workers", "--later", "60", "--stop-after", "1")
    # A member that is slow to stop may get the message again.
    printed, *_ = map(json.loads, result.stdout.splitlines())
    assert printed["body"] == "hello"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", printed["accepted_at"])
    assert {each["delay_seconds"] for each in api.asked_for("nack")} == {60}


def test_who_disagrees_reads_what_differs(client: Client, run: Run) -> None:
    client.heartbeat("orders", "workers", "other", filter=TAG_A, member_version="1.4")
    result = run("consume", "orders", "workers", "--tag-expression", "TagB")
    assert result.exit_code == 1
    assert "the group has another filter or order, set by member other" in result.output
    assert "• expression: only the group has 'TagA'; only you have 'TagB'" in result.output


def test_groups_are_listed_with_who_is_there(client: Client, run: Run) -> None:
    assert "No groups yet" in run("group", "list", "orders").output
    client.create_subscription("orders", "pushed", "https://example.com/hook")
    client.heartbeat("orders", "workers", "one", filter=TAG_A)
    listed = run("group", "list", "orders").output
    assert "tag_expression: TagA" in listed
    assert "pushed" not in listed
    [line] = run("--json", "group", "list", "orders").stdout.splitlines()
    assert [each["member_id"] for each in json.loads(line)["members"]] == ["one"]


def test_a_group_is_shown_with_its_members_and_who_disagrees(api: PullingApi, client: Client, run: Run) -> None:
    client.create_subscription("orders", "workers", {"protocol": "pull"})
    alone = run("group", "show", "orders", "workers").output
    assert "No members." in alone
    assert "pulled again (176 retries)" in alone
    assert not [word for word in ("timeout", "content_format", "DECAY", " s at most") if word in alone]
    client.heartbeat("orders", "workers", "one", None, member_version="1.4")
    client.publish("orders", "x")
    api.fakes.deliver()
    shown = run("group", "show", "orders", "workers").output
    assert "1.4" in shown
    assert "about 1 queued, 0 with members, 0 in the backlog" in shown
    client.update_subscription("orders", "workers", filter=TAG_A)
    assert "1, 1 disagrees" in run("group", "list", "orders").output
    assert json.loads(run("--json", "group", "show", "orders", "workers").stdout)["members"][0]["agrees"] is False


def test_a_subscription_with_pushes_is_not_shown_as_a_group(client: Client, run: Run) -> None:
    client.create_subscription("orders", "pushed", "https://example.com/hook")

    refused = run("group", "show", "orders", "pushed")

    assert refused.exit_code == 1
    assert refused.stdout == ""
    assert "pushed is not a consumer group: tagcast subscription show orders pushed" in refused.stderr
    assert "not from the tagcast API" not in refused.stderr
    assert json.loads(run("--json", "group", "show", "orders", "pushed").stderr)["status"] == 409


def test_a_new_group_begins_where_it_is_told_to(client: Client, run: Run) -> None:
    result = run("consume", "orders", "workers", "--from", "the beginning")
    assert result.exit_code == 1
    assert "must be latest, earliest, or an instant of RFC 3339" in result.output
    local = run("consume", "orders", "workers", "--from", "2026-11-22T08:00:00")
    assert (local.exit_code, "2026-11-22T08:00:00Z is UTC" in local.output) == (2, True)
    client.heartbeat("orders", "workers", "one", None, start_from="earliest")
    shown = run("group", "show", "orders", "workers").output
    assert "earliest" in shown
    assert run("topic", "create", "kept", "--keep", "life").exit_code == 0
    assert client.get_topic("kept").keep == "life"

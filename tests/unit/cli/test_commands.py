"""Each command asks the API what it should and shows people what was answered."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from tagcast import model
from tagcast_cli import push_options, screen
from tagcast_cli.app import app

from tests.unit.cli.conftest import SUBSCRIPTION, FakeApi, Run

ID = "01747000000000000001"
LANE = {
    "state": "blocked",
    "backlog": 100,
    "head": {"message_id": ID, "attempts": 1, "next_attempt_at": "2026-05-01T12:00:00.000Z"},
}


def test_what_exists_is_refused_with_the_commands_that_help_unless_it_is_to_be_replaced(api: FakeApi, run: Run) -> None:
    endpoint = ("--url", "http://127.0.0.1:9000/")
    for words, path, change in (
        (("topic", "create", "test1"), "/topics/test1", "tagcast topic update test1"),
        (
            ("subscribe", "test1", "A", *endpoint),
            "/topics/test1/subscriptions/A",
            "tagcast subscription update test1 A",
        ),
    ):
        api.requests.clear()
        api.teach(f"PUT {path}", {"title": "Precondition failed", "status": 412, "detail": "it exists"}, 412)
        refused = run(*words)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert all(word in refused.stderr for word in ("exists", change, "--replace"))
        assert json.loads(run("--json", *words).stderr)["status"] == 412
        api.teach(f"PUT {path}", {**SUBSCRIPTION, "version": 2}, 200)
        assert "replaced" in run(*words, "--replace").output
        assert [each.headers.get("if-none-match") for each in api.requests] == ["*", "*", None]


@pytest.mark.parametrize("given", ["", " ", "é"])
def test_a_version_or_a_key_that_no_header_can_have_is_refused_and_never_left_out(
    api: FakeApi, run: Run, given: str
) -> None:
    api.teach("PATCH /topics/t", {"topic": "t"})
    api.teach("POST /topics/t/messages", {"message_id": "1" * 20}, 202)
    refused = [
        run("topic", "update", "t", "--retention", "60", "--if-match", given),
        run("subscription", "update", "t", "A", "--timeout", "5", "--if-match", given),
        run("filter", "set", "t", "A", "--if-match", given),
        run("subscribe", "t", "A", "--pull", "--if-match", given),
        *(run("publish", "t", "x", "--idempotency-key", given.strip(), *more) for more in ((), ("--count", "2"))),
    ]
    assert [result.exit_code for result in refused] == [2] * 6
    assert api.requests == []


def test_an_update_names_what_changes_and_nothing_else(api: FakeApi, run: Run) -> None:
    api.teach("PATCH /topics/t", {"topic": "t", "retention_seconds": 60})
    for given in ("7", '"7"'):
        assert "Topic t was updated." in run("topic", "update", "t", "--retention", "60", "--if-match", given).output
    path = "/topics/t/subscriptions/A"
    api.teach(f"PATCH {path}", SUBSCRIPTION)
    words = ["subscription", "update", "t", "A"]
    assert (
        run(*words, "--timeout", "5", "--max-retries", "9", "--header", "x-a: 1", "--without-header", "x-b").exit_code
        == 0
    )
    assert run(*words, "--without", "secret", "--without", "client-certificate").exit_code == 0
    assert [(each.method, each.body, each.headers.get("if-match")) for each in api.requests] == [
        *[("PATCH", {"retention_seconds": 60}, '"7"')] * 2,
        ("PATCH", {"timeout_seconds": 5, "retry": {"max_retries": 9}, "headers": {"x-a": "1", "x-b": None}}, None),
        ("PATCH", {"secret": None, "client_certificate": None}, None),
    ]
    for nothing in (["topic", "update", "t"], words):
        assert run(*nothing).exit_code == 2


def test_another_endpoint_filter_or_strategy_takes_the_place_of_the_present_one(api: FakeApi, run: Run) -> None:
    path = "/topics/t/subscriptions/A"
    api.teach(f"GET {path}", SUBSCRIPTION)
    api.teach(f"PATCH {path}", SUBSCRIPTION)
    words = ["--sqs", "arn:aws:sqs:eu-west-1:1:q", "--sql", "a = 1", "--strategy", "EXPONENTIAL_DECAY_RETRY"]
    assert run("subscription", "update", "t", "A", *words).exit_code == 0
    sent = api.requests[-1]
    assert (sent.headers["if-match"], sent.body) == (
        '"1"',
        {
            "endpoint": {"url": None, "protocol": "sqs", "arn": "arn:aws:sqs:eu-west-1:1:q"},
            "filter": {"tags": None, "kind": "sql92", "expression": "a = 1"},
            "retry": {"max_retries": None, "interval_seconds": None, "strategy": "EXPONENTIAL_DECAY_RETRY"},
        },
    )
    present = "BACKOFF_RETRY"
    assert run("subscription", "update", "t", "A", "--strategy", present, "--max-retries", "5").exit_code == 0
    assert api.requests[-1].body == {"retry": {"strategy": present, "max_retries": 5}}


def test_a_command_says_whether_a_subscription_signs_and_how(api: FakeApi, run: Run) -> None:
    for schemes, said in (([], "no"), (["v1"], "v1 (with the secret)"), (["v1a"], "v1a (with a key of the service")):
        api.teach("GET /topics/t/subscriptions/A", {**SUBSCRIPTION, "signatures": schemes})
        output = run("subscription", "show", "t", "A").output
        assert [
            line.split(None, 1)[1].startswith(said) for line in output.splitlines() if line.startswith("signed")
        ] == [True]


def test_all_follows_the_cursors_to_the_end(api: FakeApi, run: Run) -> None:
    api.teach("GET /topics?limit=1", {"topics": [{"name": "one"}], "next_cursor": "c/1+="})
    api.teach("GET /topics?limit=1&cursor=c%2F1%2B%3D", {"topics": [{"name": "two"}], "next_cursor": None})
    result = run("topic", "list", "--limit", "1", "--all")
    assert "one" in result.output
    assert "two" in result.output
    assert "--cursor" not in result.output


@pytest.mark.parametrize("place", ["before", "behind"])
def test_json_is_the_answer_verbatim_wherever_the_option_stands(api: FakeApi, run: Run, place: str) -> None:
    text = '{"topic":"test1",   "retained_messages": 7}'
    api.teach("GET /topics/test1", text)
    words = ["--json", "topic", "show", "test1"] if place == "before" else ["topic", "show", "test1", "--json"]
    assert run(*words).stdout == text + "\n"


def test_what_happens_is_printed_a_line_each_until_there_were_enough(api: FakeApi, run: Run) -> None:
    at = "2026-05-01T12:00:00.000Z"
    event: dict[str, object] = {
        "happened_at": at,
        "kind": "delivery",
        "state": "blocked",
        "message_id": ID,
        "attempts": 2,
    }
    event |= {"subscription": "A\x1b", "outcome": "http 500"}
    counts = {"since": at, "counted_at": at, "published": 0, "delivered": 0, "failed": 2}
    nothing = {"events": [], "left_out": 0, "counts": counts, "next_cursor": "c1"}
    api.teach("GET /topics/test1/tail?max_events=0", nothing)
    api.teach(
        "GET /topics/test1/tail?cursor=c1&wait_seconds=20",
        {**nothing, "events": [event, event, event], "left_out": 7, "next_cursor": "c2"},
    )

    result = run("tail", "test1", "--stop-after", "2")

    line = f"12:00:00.000 {ID} A\\x1b blocked attempt 2 http 500"
    assert result.stdout.splitlines() == [line, line]
    assert "7 more events are not shown" in result.stderr
    [printed] = run("--json", "tail", "test1", "--stop-after", "1").stdout.splitlines()
    assert json.loads(printed) == event
    assert printed.startswith('{"happened_at": "2026-05-01T12:00:00.000Z", "kind": "delivery", "state": "blocked", ')
    assert json.loads(run("tail", "test1", "--stop-after", "1", "--json").stdout)["attempts"] == 2


def test_a_certificate_is_read_from_its_files_and_told_by_its_name(api: FakeApi, run: Run, tmp_path: Path) -> None:
    told = {"fingerprint": "ab12", "subject": "commonName=tag\x1bcast", "expires_at": "2026-07-01T12:00:00.000Z"}
    api.teach("PUT /topics/test1/subscriptions/A", {**SUBSCRIPTION, "client_certificate": told}, 201)
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_text("a certificate")
    key.write_text("its key")
    words = ["subscribe", "test1", "A", "--url", "https://a.test/"]
    result = run(*words, "--client-certificate", str(certificate), "--client-key", str(key))

    assert result.exit_code == 0, result.output
    assert api.requests[0].body["client_certificate"] == {"certificate": "a certificate", "private_key": "its key"}
    for said in ("commonName=tag\\x1bcast", "A subscribed to test1.", "BACKOFF_RETRY (3 retries, 15 s apart)"):
        assert said in result.output

    for wrong in (["--client-key", str(key)], ["--client-key", str(key), "--client-certificate", str(tmp_path)]):
        assert run(*words, *wrong).exit_code == 2
    assert len(api.requests) == 1


def test_a_filter_is_replaced_alone(api: FakeApi, run: Run) -> None:
    api.teach("PUT /topics/test1/subscriptions/A/filter", SUBSCRIPTION)
    assert (
        "The filter of A was replaced." in run("filter", "set", "test1", "A", "--tag", "a", "--if-match", '"3"').output
    )
    assert run("filter", "set", "test1", "A").exit_code == 0
    assert [request.body for request in api.requests] == [{"filter": {"kind": "tags", "tags": ["a"]}}, {"filter": None}]
    assert [request.headers.get("if-match") for request in api.requests] == ['"3"', None]


def test_a_file_of_subscriptions_is_sent_in_parts_and_who_is_refused_is_told_by_name_and_place(
    api: FakeApi, run: Run, tmp_path: Path
) -> None:
    problem = {"title": "Invalid values", "status": 422, "errors": [{"detail": "is required", "pointer": "#/endpoint"}]}
    results = [{**SUBSCRIPTION, "secret": "whsec_abc"}, {"error": problem}]
    api.teach("POST /topics/test1/subscriptions/batch", {"results": results})
    items = [{"name": "A", "endpoint": "http://127.0.0.1:9000/"}, {"name": "B"}]
    (tmp_path / "all.json").write_text(json.dumps(items))

    result = run("subscribe-all", "test1", f"@{tmp_path / 'all.json'}")

    assert result.exit_code == 1
    asked = [request.body for request in api.requests]
    described = {**items[0], "endpoint": {"protocol": "http", "url": items[0]["endpoint"]}}
    assert asked == [{"subscriptions": [described, items[1]], "replace": False}]
    for line in ("1 subscribed to test1.", "whsec_abc", "B (at /1) was refused:", "#/endpoint  is required"):
        assert line in result.output
    assert (
        json.loads(run("--json", "subscribe-all", "test1", "-", stdin=json.dumps(items)).stdout)["results"] == results
    )
    exists = {"title": "Precondition Failed", "status": 412, "detail": "the subscription exists already"}
    api.teach("POST /topics/test1/subscriptions/batch", {"results": [{"error": exists}]})
    again = run("subscribe-all", "test1", "-", stdin=json.dumps(items[:1]))
    assert (again.exit_code, "with --replace" in again.output) == (1, True)
    twice = json.dumps([*items, {"name": ["A"]}, items[0]])
    for text, fault in (("{}", "must be a JSON array"), ("{", "is not JSON"), (twice, "named twice: A at /3")):
        refused = run("subscribe-all", "test1", "-", stdin=text)
        assert (refused.exit_code, fault in refused.output) == (2, True)


def test_an_order_is_asked_for_by_a_word_and_its_retries_are_told(api: FakeApi, run: Run) -> None:
    retry = {"strategy": "BACKOFF_RETRY", "max_retries": "life", "interval_seconds": 5, "max_interval_seconds": 60}
    api.teach("PUT /topics/test1/subscriptions/A", {**SUBSCRIPTION, "ordered": True, "retry": retry}, 201)
    words = ["--ordered", "--strategy", "BACKOFF_RETRY", "--max-retries", "life", "--interval", "5s"]
    result = run("subscribe", "test1", "A", "--url", "http://x/", *words, "--max-interval", "1m")
    assert result.exit_code == 0, result.output
    assert (api.requests[0].body["ordered"], api.requests[0].body["retry"]) == (True, retry)
    assert "BACKOFF_RETRY (until it expires, 5 s at first, 60 s at most)" in result.output


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--url", "http://x/", "--max-retries", "for ever"],
        ["--url", "http://x/", "--sqs", "q"],
        ["--url", "http://x/", "--tag", "a", "--sql", "b = 1"],
        ["--url", "http://x/", "--dialect", "strict"],
        ["--url", "http://x/", "--filter", "not json"],
        ["--url", "http://x/", "--strategy", "NEVER"],
    ],
)
def test_options_that_contradict_each_other_ask_the_api_nothing(api: FakeApi, run: Run, options: list[str]) -> None:
    assert run("subscribe", "t", "A", *options).exit_code == 2
    assert api.requests == []


@pytest.mark.parametrize(
    ("option", "given", "allowed"),
    [("--url", "127.0.0.1:9000", "https:// or http://"), ("--sqs", "orders", "the URL or the ARN of a queue")],
)
def test_what_is_no_address_is_refused_by_all_the_forms_that_are_allowed(
    api: FakeApi, run: Run, option: str, given: str, allowed: str
) -> None:
    refused = run("subscribe", "t", "A", option, given)
    assert (refused.exit_code, allowed in refused.output, api.requests) == (2, True, [])


def test_publishing_describes_the_whole_message(api: FakeApi, run: Run) -> None:
    api.teach("POST /topics/test1/messages", {"message_id": ID, "matched": 2}, 201)
    words = ["publish", "test1", "hello", "--tag", "apple", "--routing-key", "a.b", "--property", "price=120"]
    words += ["--ordering-key", "k", "--content-type", "text/plain", "--idempotency-key", "once"]
    result = run(*words)
    assert ID in result.output
    assert "No subscription matched" not in result.output
    assert api.requests[0].headers["idempotency-key"] == "once"
    assert api.requests[0].body == {
        "body": "hello",
        "tags": ["apple"],
        "routing_key": "a.b",
        "properties": {"price": "120"},
        "ordering_key": "k",
        "content_type": "text/plain",
    }
    api.teach("POST /topics/test1/messages", {"message_id": ID, "matched": 0}, 201)
    assert "No subscription matched" in run(*words).output


def test_the_body_comes_from_standard_input_or_a_file(api: FakeApi, run: Run, tmp_path: Path) -> None:
    api.teach("POST /topics/t/messages", {"message_id": ID, "matched": 1}, 201)
    api.teach("POST /filters/test", {"verdict": "matched", "explanation": None})
    (tmp_path / "body.bin").write_bytes(b"\xff\x00")
    assert run("publish", "t", "-", stdin="piped").exit_code == 0
    assert run("publish", "t", stdin="piped too").exit_code == 0
    assert run("publish", "t", f"@{tmp_path / 'body.bin'}").exit_code == 0
    assert [request.body for request in api.requests if request.method == "POST"] == [
        {"body": "piped"},
        {"body": "piped too"},
        {"body_base64": "/wA="},
    ]
    assert run("publish", "t", "@/no/such/file").exit_code == 2
    for body, stdin, told in ((f"@{tmp_path / 'body.bin'}", None, {"body_base64": "/wA="}), ("-", "a", {"body": "a"})):
        assert run("filter", "test", "--tag", "a", body, stdin=stdin).exit_code == 0
        assert api.requests[-1].body["message"] == told


def test_a_body_without_end_is_refused(api: FakeApi, run: Run) -> None:
    for words in (("publish", "t"), ("filter", "test", "--tag", "a"), ("subscribe-all", "t")):
        result = run(*words, "@/dev/zero")
        assert result.exit_code == 2
        assert "/dev/zero is longer than" in result.output
    refused = run("publish", "t", "-", stdin=b"x" * 262_145)
    assert refused.exit_code == 2
    assert "standard input is longer than 262,144 bytes" in refused.output
    assert not api.requests
    api.teach("POST /topics/t/messages", {"message_id": ID, "matched": 1}, 201)
    assert run("publish", "t", "-", stdin=b"x" * 262_144).exit_code == 0


def test_copies_go_through_the_batch_route(api: FakeApi, run: Run) -> None:
    results = [{"message_id": ID, "matched": 1}] * 100
    api.teach("POST /topics/t/messages/batch", {"results": results})
    result = run("publish", "t", "x", "--count", "250", "--idempotency-key", "k")
    assert result.exit_code == 0, result.output
    posted = [request for request in api.requests if request.method == "POST"]
    assert [len(request.body["messages"]) for request in posted] == [100, 100, 50]
    keys = [request.headers["idempotency-key"] for request in posted]
    assert (keys[0], len(set(keys)), [len(key) for key in keys[1:]]) == ("k", 3, [64, 64])


def test_what_was_done_before_a_failed_part_is_shown(api: FakeApi, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    accepted = [{"message_id": ID, "matched": 1}] * 100
    created = [{"name": f"s{number}", "secret": f"whsec_{number}"} for number in range(100)]

    def answer_first(results: list[dict[str, Any]]) -> None:
        answers = [(200, {"results": results}), (422, {"title": "Full", "status": 422})]

        def answer_to(method: str, asked: str) -> tuple[int, str, str]:
            status, body = answers.pop(0)
            return status, "application/json", json.dumps(body)

        monkeypatch.setattr(api, "answer_to", answer_to)

    answer_first(accepted)
    result = run("publish", "t", "x", "--count", "150")
    assert (result.exit_code, "Full" in result.stderr) == (1, True)
    assert re.search(r"accepted +100 ", result.stdout)

    items = [{"name": f"s{number}", "endpoint": "http://a.test/", "secret": "generate"} for number in range(150)]
    answer_first(created)
    result = run("subscribe-all", "t", "-", stdin=json.dumps(items))
    assert (result.exit_code, "Full" in result.stderr) == (1, True)
    assert "100 subscribed to t." in result.stdout
    assert "whsec_99" in result.stdout


def test_a_refused_copy_is_shown_and_ends_with_1(api: FakeApi, run: Run) -> None:
    fault = {"title": "Too large", "status": 413, "detail": "65537 bytes"}
    api.teach("POST /topics/t/messages/batch", {"results": [{"message_id": ID, "matched": 1}, {"error": fault}]})
    result = run("publish", "t", "x", "--count", "2")
    assert result.exit_code == 1
    assert "1 refused" in result.output
    assert "Too large (413)" in result.output


def test_a_message_of_more_pages_is_shown_page_by_page_or_as_a_whole(api: FakeApi, run: Run) -> None:
    first, second = ({"message_id": ID, "subscribers": {name: {"state": "delivered"}}} for name in ("A", "Z"))
    cursor = "c" * 300
    counts = {"blocked": 1, "delivered": 2}
    api.teach(f"GET /topics/t/messages/{ID}", {**first, "counts": counts, "next_cursor": cursor})
    failing = {"Failed": {"state": "blocked", "last_outcome": "http 500"}}
    api.teach(f"GET /topics/t/messages/{ID}?only=failing", {"subscribers": failing})
    api.teach(f"GET /topics/t/messages/{ID}?cursor={cursor}", second)
    page = run("message", "t", ID).output
    assert "3: 1 blocked, 2 delivered" in page
    assert page.index("Failed") < page.index("│ A "), "those that fail stand first, whichever page has them"
    assert ("Z" in page, "1 more: --all, or --only STATE" in page) == (False, True)
    assert "Z" in run("message", "t", ID, "--cursor", cursor).output
    whole = run("message", "t", ID, "--all").output
    assert ("A" in whole, "Z" in whole, "--cursor" in whole) == (True, True, False)
    assert len(run("--json", "message", "t", ID, "--all").stdout.splitlines()) == 2


def test_of_many_deliveries_those_that_fail_are_shown_with_some_others(api: FakeApi, run: Run) -> None:
    states = ["blocked"] * 60 + ["delivered"] * 140
    entries = {f"s{place:03}": {"state": state} for place, state in enumerate(states)}
    shown = {"message_id": ID, "subscribers": entries, "counts": {"delivered": 140, "blocked": 60}}
    api.teach(f"GET /topics/t/messages/{ID}", shown)
    few = run("message", "t", ID).output
    assert ("s059" in few, "s109" in few, "s110" in few, "90 more" in few) == (True, True, False, True)
    assert "s199" in run("message", "t", ID, "--all").output
    api.teach(f"GET /topics/t/messages/{ID}?only=blocked", {**shown, "subscribers": {"s001": entries["s001"]}})
    assert "s001" in run("message", "t", ID, "--only", "blocked").output


def test_the_id_of_a_message_is_enough_to_find_it(api: FakeApi, run: Run) -> None:
    api.teach(f"GET /messages/{ID}?only=cancelled", {"topic": "t", "message_id": ID, "subscribers": {}})
    api.teach(f"GET /topics/t/messages/{ID}", {"message_id": ID, "subscribers": {}, "counts": {}})
    api.teach(f"GET /topics/t/messages/{ID}/explain?subscription=A", {"received": False})
    assert "none matched" in run("message", ID).output
    assert "received: ✗ false" in run("explain", ID, "-s", "A").output
    for words in (["message", "t"], ["explain", "t", "-s", "A"]):
        assert run(*words).exit_code == 2
    swapped = run("explain", ID, "A")
    assert swapped.exit_code == 2
    assert f"explain {ID} --subscription A" in " ".join(swapped.output.replace("│", " ").split())


def test_the_attempts_of_a_message_are_a_table_if_any_failed(api: FakeApi, run: Run) -> None:
    attempt = {"attempt": 3, "ended_at": "2027-01-15T08:00:00.000Z", "took_ms": 41, "outcome": "http 503"}
    told = {"subscription": "A", "state": "blocked", "attempts": 4, "history": [attempt | {"response": "[red]x"}]}
    api.teach(f"GET /topics/t/messages/{ID}/attempts?limit=100", {"deliveries": [told], "next_cursor": None})
    output = run("message", "t", ID, "--attempts").output
    for word in ("A", "3 of 4", "41", "http 503", "[red]x"):
        assert word in output
    api.teach(f"GET /topics/t/messages/{ID}/attempts?limit=100", {"deliveries": [], "next_cursor": None})
    output = run("message", "t", ID, "--attempts").output
    assert "No failed attempts" in output
    assert "Pulls of a group are only counted" in output


def test_a_pull_of_a_group_that_was_pulled_again_is_not_said_to_be_late(api: FakeApi, run: Run) -> None:
    """The next pull writes its word over that of one that was given back."""
    entry = {"state": "blocked", "attempts": 1, "last_attempt_at": None, "last_outcome": "not acknowledged in time"}
    api.teach(f"GET /topics/t/messages/{ID}", {"message_id": ID, "subscribers": {"workers": entry}})
    assert "nacked, or not acknowledged in time" in run("message", "t", ID).output


@pytest.mark.parametrize(("state", "times"), [("retrying", ["07:00:00", "08:00:00"]), ("blocked", ["07:00:00"])])
def test_deliveries_that_wait_alone_have_their_own_next_attempts(
    api: FakeApi, run: Run, state: str, times: list[str]
) -> None:
    due = [
        {"message_id": str(place) * 20, "state": "blocked", "attempts": 1, "next_attempt_at": f"2000-01-01T{at}Z"}
        for place, at in enumerate(("07:00:00", "08:00:00"))
    ]
    lane = {"state": state, "backlog": 2, "head": {"message_id": "0" * 20}}
    api.teach("GET /topics/t/subscriptions/A", {**SUBSCRIPTION, "lane": lane})
    api.teach("GET /topics/t/subscriptions/A/backlog?limit=20", {"deliveries": due, "next_cursor": None})
    rows = [line for line in run("lane", "t", "A").output.splitlines() if line.startswith("│")]
    assert [at for at in ("07:00:00", "08:00:00") if at in "".join(rows)] == times


def test_a_lane_shows_its_head_and_its_backlog(api: FakeApi, run: Run) -> None:
    delivery = {"message_id": ID, "state": "blocked", "attempts": 1, "last_outcome": "http 500"}
    shown = {**SUBSCRIPTION, "lane": LANE}
    api.teach("GET /topics/t/subscriptions/A", shown)
    api.teach("GET /topics/t/subscriptions/A/backlog?limit=20", {"deliveries": [delivery], "next_cursor": None})
    output = run("lane", "t", "A").output
    assert "tags: apple" in output
    assert "next attempt at" in output
    assert "http 500" in output
    both = json.loads(run("lane", "t", "A", "--json").stdout)
    assert both == {"subscription": shown, "backlog": {"deliveries": [delivery], "next_cursor": None}}


def test_the_lanes_of_all_topics_are_listed_and_hosts_with_their_circuits(api: FakeApi, run: Run) -> None:
    head = {"message_id": ID, "attempts": 3, "last_outcome": "http 500"}
    listed = [{"topic": "t", "subscription": "A", "state": "blocked", "head": head}]
    api.teach("GET /lanes?limit=20", {"lanes": listed, "next_cursor": None})
    output = run("lanes").output
    assert all(word in output for word in ("blocked", "A", ID, "http 500"))
    api.teach("GET /lanes?limit=20", {"lanes": [], "next_cursor": None})
    assert "All lanes are active." in run("lanes").output
    dead = {"host": "https://dead.test", "circuit": "open", "next_probe_at": "2026-11-22T09:00:10Z"}
    api.teach("GET /hosts?limit=20", {"hosts": [dead], "next_cursor": None})
    output = run("hosts").output
    assert all(word in output for word in ("open", "https://dead.test"))
    api.teach("GET /hosts?limit=20", {"hosts": [], "next_cursor": None})
    assert "All hosts responded" in run("hosts").output


def test_an_endpoint_without_an_address_is_not_ignored(api: FakeApi, run: Run) -> None:
    api.teach("GET /topics/t/subscriptions/A", SUBSCRIPTION)
    api.teach("PATCH /topics/t/subscriptions/A", {"title": "Unprocessable Content", "status": 422}, 422)

    assert run("subscription", "update", "t", "A", "--url", "", "--timeout", "5").exit_code == 1
    assert api.requests[-1].body["endpoint"]["url"] == ""


def test_a_subscription_without_public_keys_says_how_to_get_one_but_prints_none(api: FakeApi, run: Run) -> None:
    api.teach("GET /topics/t/subscriptions/A", SUBSCRIPTION)
    none = run("keys", "t", "A")
    assert (none.stdout, "--signature v1a" in none.stderr) == ("", True)
    api.teach("GET /topics/t/subscriptions/A", {**SUBSCRIPTION, "public_keys": ["whpk_a", "whpk_b"]})
    assert (run("keys", "t", "A").stdout, run("keys", "t", "A").stderr) == ("whpk_a\nwhpk_b\n", "")


def test_lanes_that_are_not_active_name_what_helps(api: FakeApi, run: Run) -> None:
    helps = {
        "blocked": "Retry now: tagcast retry {}; Skip it: tagcast skip {} --message ID --reason TEXT",
        "retrying": "Retry all now: tagcast retry {}; Skip it: tagcast skip {} --message ID --reason TEXT",
        "paused": "End the pause: tagcast resume {}",
        "suspended": "Resume: tagcast resume {}",
    }
    api.teach("GET /topics/t/subscriptions/A/backlog?limit=20", {"deliveries": [], "next_cursor": None})
    listed = []
    for state, said in helps.items():
        lane = {**LANE, "state": state}
        api.teach(
            "GET /topics/t/subscriptions/A", {**SUBSCRIPTION, "retry": {"strategy": "INDEPENDENT_RETRY"}, "lane": lane}
        )
        named = said.replace("{}", "t A").replace("--message ID", f"--message {ID}")
        assert named in run("lane", "t", "A").output
        listed += [{"topic": "t", "subscription": name, "host": "http://x", **lane} for name in ("A", "B")]
    api.teach("GET /topics/t/subscriptions/A", {**SUBSCRIPTION, "lane": {"state": "active", "backlog": 0}})
    assert "tagcast " not in run("lane", "t", "A").output
    api.teach("GET /lanes?limit=20", {"lanes": listed, "next_cursor": None})
    api.teach("GET /lanes?limit=100", {"lanes": listed, "next_cursor": None})
    for words in (["lanes"], ["lanes", "--host", "http://x"]):
        output = run(*words).output
        for state, said in helps.items():
            assert output.count(f"{state}: {said.replace('{}', 'TOPIC SUBSCRIPTION')}") == 1


@pytest.mark.parametrize("lines", [["Bearer-4711"], [": 4711"], ["x-a: 4711", "x-a: 4712"]])
def test_a_header_that_cannot_be_told_from_its_value_is_refused_and_not_printed(run: Run, lines: list[str]) -> None:
    options = [word for line in lines for word in ("--header", line)]
    result = run("subscribe", "t", "A", "--url", "http://a.test/", *options)
    assert (result.exit_code, "471" in result.output) == (2, False)


@pytest.mark.parametrize(
    ("pairs", "fault"), [(["price"], "'price' is not NAME=VALUE"), (["a=1", "a=2"], "'a' is given twice")]
)
def test_a_property_that_is_no_pair_or_given_twice_is_refused(
    api: FakeApi, run: Run, pairs: list[str], fault: str
) -> None:
    options = [word for pair in pairs for word in ("-p", pair)]
    for words in (["publish", "t", "x"], ["filter", "test", "x", "--tag", "a"]):
        result = run(*words, *options)
        assert (result.exit_code, fault in " ".join(result.output.split())) == (2, True)
    assert api.requests == []


def test_a_secret_is_exchanged_for_one_that_is_given_or_made(api: FakeApi, run: Run) -> None:
    api.teach("POST /topics/t/subscriptions/A/secret/rotate", {"name": "A", "secret": "whsec_new"})
    assert "whsec_new" in run("rotate-secret", "t", "A", "--grace", "60").output
    run("rotate-secret", "t", "A", "--secret", "whsec_own")
    assert [request.body for request in api.requests] == [{"grace_seconds": 60}, {"secret": "whsec_own"}]


def test_an_endpoint_is_asked_again_and_the_answer_is_told(api: FakeApi, run: Run) -> None:
    pending = {"name": "A", "state": "unverified", "state_reason": "http 404"}
    api.teach("POST /topics/t/subscriptions/A/verify", pending)
    refused = run("verify", "t", "A")
    assert refused.exit_code == 1
    assert "did not confirm" in refused.output
    assert "response: http 404" in refused.output
    api.teach("POST /topics/t/subscriptions/A/verify", {"name": "A"})
    agreed = run("verify", "t", "A")
    assert (agreed.exit_code, "The endpoint of A is verified." in agreed.output) == (0, True)


def test_no_line_break_cuts_the_command_that_verifies(api: FakeApi, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "PIPE_WIDTH", 40)
    lane = {**LANE, "state": "unverified"}
    pending = {**SUBSCRIPTION, "name": "A" * 30, "lane": lane, "state": "unverified", "state_reason": "http 404"}
    api.teach(f"GET /topics/test1/subscriptions/{'A' * 30}", pending)
    api.teach(f"GET /topics/test1/subscriptions/{'A' * 30}/backlog?limit=20", {"deliveries": []})
    for words in (("subscription", "show"), ("lane",)):
        assert f"Verify it with: tagcast verify test1 {'A' * 30}" in run(*words, "test1", "A" * 30).output.splitlines()


def test_an_endpoint_that_has_not_agreed_is_unverified_with_the_command_that_helps(api: FakeApi, run: Run) -> None:
    lane = {**LANE, "state": "unverified", "backlog": 1}
    pending = {**SUBSCRIPTION, "lane": lane, "state": "unverified", "state_reason": "http 404"}
    api.teach("PUT /topics/test1/subscriptions/A", pending, 201)
    api.teach("GET /topics/test1/subscriptions/A", pending)
    api.teach("GET /topics/test1/subscriptions/A/backlog?limit=20", {"deliveries": [], "next_cursor": None})
    api.teach("GET /topics/test1/subscriptions?limit=50", {"subscriptions": [pending], "next_cursor": None})
    made = run("subscribe", "test1", "A", "--url", "http://127.0.0.1:9000/")
    assert (made.exit_code, "A subscribed to test1, unverified." in made.output) == (0, True)
    assert "unverified" in run("subscription", "list", "test1").output
    assert "after verification" in run("lane", "test1", "A").output
    for output in (made.output, run("lane", "test1", "A").output):
        assert "response: http 404" in output
        assert "tagcast verify test1 A" in output


def test_skipping_needs_a_reason(api: FakeApi, run: Run) -> None:
    api.teach("POST /topics/t/subscriptions/A/skip", LANE)
    assert run("skip", "t", "A").exit_code == 2
    assert run("skip", "t", "A", "--reason", "poison").exit_code == 0
    assert [request.body for request in api.requests] == [{"reason": "poison"}]


def test_a_retry_names_the_lanes_that_it_touched(api: FakeApi, run: Run) -> None:
    api.teach("POST /topics/t/retry", {"lanes": ["A"]}, 202)
    shown = run("retry", "t").output
    assert ("A" in shown, "—" in shown) == (True, False), "the answer tells names, and nothing else"
    api.teach("POST /topics/t/retry", {"lanes": []}, 202)
    assert run("retry", "t").output.splitlines() == [
        "Nothing to retry: no subscription is blocked under BACKOFF_RETRY.",
        "Under other strategies: tagcast lanes retry --topic t",
    ]
    api.teach("POST /topics/t/subscriptions/A/retry", {"state": "active", "backlog": 0, "head": None})
    assert "nothing was retried" in run("retry", "t", "A").output


def test_an_explanation_is_a_tree_with_every_part_and_its_value(api: FakeApi, run: Run) -> None:
    part = {"text": "price > 100", "value": False, "note": "price is '90'", "children": []}
    skipped = {"text": "region = 'eu'", "value": "skipped", "note": "", "children": []}
    root = {"text": "AND", "value": False, "note": "", "children": [part, skipped]}
    api.teach(
        f"GET /topics/t/messages/{ID}/explain?subscription=A",
        {"verdict": "not_matched", "filter_version": 3, "explanation": root, "lane": {"state": "active"}},
    )
    output = run("explain", "t", ID, "--subscription", "A").output
    lines = {line.strip("│├└─ ") for line in output.splitlines()}
    assert "price > 100  ✗ false  (price is '90')" in lines
    assert "region = 'eu'  – not reached" in lines
    assert "filter version: 3" in lines


def test_without_a_subscription_the_first_twenty_are_explained_a_line_each(api: FakeApi, run: Run) -> None:
    names = [f"s{number:02}" for number in range(22)]
    listed = [{"name": name} for name in names]
    api.teach("GET /topics/t/subscriptions?limit=100", {"subscriptions": listed, "next_cursor": "c"})
    for name in names:
        told = {"subscription": name, "received": name == "s00", "reason": f"reason of {name}"}
        api.teach(f"GET /topics/t/messages/{ID}/explain?subscription={name}", told)

    output = run("explain", "t", ID).output

    assert re.search(r"s00 +│ yes +│ reason of s00", output)
    assert re.search(r"s19 +│ no +│ reason of s19", output)
    assert ("s20" in output, "at least 2 more subscriptions" in output) == (False, True)
    assert f"tagcast explain t {ID} --subscription NAME" in output
    assert len(run("--json", "explain", "t", ID).stdout.splitlines()) == 20
    api.teach("GET /topics/t/subscriptions?limit=100", {"subscriptions": [], "next_cursor": None})
    absent = {"title": "Not Found", "status": 404, "detail": f"message {ID} does not exist"}
    api.teach(f"GET /topics/t/messages/{ID}", absent, 404)
    missing = run("explain", "t", ID)
    assert (missing.exit_code, missing.stdout, "does not exist" in missing.stderr) == (1, "", True)
    api.teach(f"GET /topics/t/messages/{ID}", {"message_id": ID})
    assert "t has no subscriptions." in run("explain", "t", ID).output


def test_an_explanation_numbers_attempts_and_calls_no_filter_everything(api: FakeApi, run: Run) -> None:
    attempts = [{"attempt": number, "took_ms": 7, "outcome": "http 500"} for number in (1, 2)]
    tree = {"text": "true", "value": True, "note": "", "children": []}
    api.teach(
        f"GET /topics/t/messages/{ID}/explain?subscription=A",
        {"filter": {"version": 1, "filter": None, "verdict": "matched", "explanation": tree},
         "delivery": {"state": "blocked", "last_outcome": None, "history": attempts}},
    )  # fmt: skip
    output = run("explain", "t", ID, "--subscription", "A").output
    lines = [line.strip("│├└─ ") for line in output.splitlines()]
    assert "filter: everything" in lines
    assert [line for line in lines if line.startswith("attempt")] == ["attempt 1", "attempt 2"]
    assert "last outcome: —" in lines
    assert "" not in lines
    assert "unknown" not in output


def test_a_filter_is_tested_against_a_message(api: FakeApi, run: Run) -> None:
    api.teach("POST /filters/test", {"verdict": "matched", "explanation": {"text": "a = 1", "value": True}})
    result = run("filter", "test", "--sql", "a = 1", "--property", "a=1", "body")
    assert "verdict: matched" in result.output
    assert "✓ true" in result.output
    assert "warning" not in result.output
    assert api.requests[0].body == {
        "filter": {"kind": "sql92", "expression": "a = 1"},
        "message": {"body": "body", "properties": {"a": "1"}},
    }


def test_a_filter_test_takes_the_filter_as_subscribe_does(api: FakeApi, run: Run) -> None:
    options = {"tag", "all_tags", "tag_expression", "routing_key", "sql", "event_pattern", "dialect", "scope"}
    options |= {"filter_json"}
    command: Any = typer.main.get_command(app)
    tested, subscribed = (
        {each.name: each.opts for each in found.params if each.name in options}
        for found in (command.commands["filter"].commands["test"], command.commands["subscribe"])
    )
    assert tested == subscribed
    assert tested.keys() == options
    warning = "region = eu compares two properties"
    api.teach("POST /filters/test", {"verdict": "not_matched", "explanation": None, "warnings": [warning]})
    assert f"warning: {warning}" in run("filter", "test", "--tag", "a", "--tag", "b", "--message-tag", "a").output
    assert run("filter", "test", "--routing-key", "a.*", "-r", "a.b", "-t", "x").exit_code == 0
    assert [request.body for request in api.requests] == [
        {"filter": {"kind": "tags", "tags": ["a", "b"]}, "message": {"body": "", "tags": ["a"]}},
        {
            "filter": {"kind": "routing_key", "patterns": ["a.*"]},
            "message": {"body": "", "tags": ["x"], "routing_key": "a.b"},
        },
    ]


def test_a_filter_test_without_a_filter_is_refused(api: FakeApi, run: Run) -> None:
    for words in (["hello"], ["--property", "a=1"], ["--message-tag", "a"]):
        refused = run("filter", "test", *words)
        assert refused.exit_code == 2
        assert "a filter is required" in refused.stderr
        assert "--sql" in refused.stderr
    assert api.requests == []


def test_a_filter_function_that_the_local_stack_does_not_have_is_warned_of(api: FakeApi, run: Run) -> None:
    words = ["subscribe", "test1", "A", "--url", "http://x/", "--filter", '{"kind": "function", "function": "rate"}']
    for function, known, is_warned in (
        ("rate", [], True),
        ("rate", ["rate"], False),
        ("arn:aws:lambda:us-east-1:123456789012:function:rate:live", ["rate"], False),
    ):
        described = {**SUBSCRIPTION, "filter": {"kind": "function", "function": function}}
        api.teach("PUT /topics/test1/subscriptions/A", described, 201)
        api.teach("GET /stack", {"folder": "/there", "functions": known})
        assert ("the local stack has no function rate" in run(*words).output) == is_warned
    api.teach("GET /stack", {"title": "Not Found", "status": 404}, 404)
    assert "warning" not in run(*words).output, "a deployment does not say which functions there are"


def test_a_group_and_its_dead_letter_topic_are_named_and_removed(api: FakeApi, run: Run) -> None:
    group = {**SUBSCRIPTION, "endpoint": {"protocol": "pull"}, "dead_letter_topic": "dead"}
    api.teach("PUT /topics/test1/subscriptions/A", group, 201)
    api.teach("PATCH /topics/test1/subscriptions/A", group)
    made = run("subscribe", "test1", "A", "--pull", "--dead-letter-topic", "dead")
    assert re.search(r"dead letter topic +dead", made.output)
    assert run("subscription", "update", "test1", "A", "--without", "dead-letter-topic").exit_code == 0
    assert [request.body for request in api.requests] == [
        {"endpoint": {"protocol": "pull"}, "dead_letter_topic": "dead"},
        {"dead_letter_topic": None},
    ]
    assert "--pull" in run("subscribe", "test1", "A", "--pull", "--url", "http://x/").stderr


def test_without_resets_any_setting_and_refuses_other_names(api: FakeApi, run: Run) -> None:
    api.teach("PATCH /topics/t", {"name": "t"})
    assert run("topic", "update", "t", "--without", "retention", "--without", "events-topic").exit_code == 0
    assert api.requests[-1].body == {"retention_seconds": None, "events_topic": None}
    assert "colour is not a setting. Allowed: events-topic" in run("topic", "update", "t", "--without", "colour").stderr


@pytest.mark.parametrize("other", [["--without-header", "x-a"], ["--header", "x-a: 1"]])
def test_a_setting_is_either_removed_or_updated(api: FakeApi, run: Run, other: list[str]) -> None:
    refused = run("subscription", "update", "t", "A", "--without", "headers", *other)
    assert (refused.exit_code, api.requests) == (2, [])
    assert "headers: another option updates it" in refused.stderr


def test_a_secret_in_the_environment_is_for_new_pushes_over_http_only(
    api: FakeApi, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAGCAST_SECRET", "whsec_" + "QUJD" * 8)
    path = "/topics/t/subscriptions/A"
    api.teach(f"PUT {path}", SUBSCRIPTION, 201)
    api.teach(f"PATCH {path}", SUBSCRIPTION)

    assert run("subscribe", "t", "A", "--url", "http://127.0.0.1:9000/").exit_code == 0
    assert run("subscribe", "t", "A", "--pull").exit_code == 0
    assert run("subscription", "update", "t", "A", "--timeout", "6").exit_code == 0

    assert ["secret" in each.body for each in api.requests] == [True, False, False]


def test_a_null_in_a_pattern_is_refused_before_it_removes_the_condition(api: FakeApi, run: Run) -> None:
    api.teach("GET /topics/t/subscriptions/A", SUBSCRIPTION)
    refused = run("subscription", "update", "t", "A", "--event-pattern", '{"status": null, "b": [1]}')
    assert (refused.exit_code, [each.method for each in api.requests]) == (2, ["GET"])
    assert "'status' in 'pattern' must not be null" in refused.stderr


def test_the_words_of_options_are_those_of_the_service() -> None:
    assert list(get_args(push_options.Strategy)) == [each.value for each in model.Strategy]


def test_subscriptions_and_health_are_shown(api: FakeApi, run: Run) -> None:
    api.teach("GET /topics/t/subscriptions?limit=50", {"subscriptions": [SUBSCRIPTION], "next_cursor": None})
    api.teach("GET /health", {"status": "ok", "version": "0.1.0"})
    api.teach("DELETE /topics/t/subscriptions/A", status=204)
    assert "tags: apple" in run("subscription", "list", "t").output
    assert "0.1.0" in run("health").output
    assert "A unsubscribed from t." in run("unsubscribe", "t", "A").output


def test_a_token_is_shown_in_place_of_a_signature(api: FakeApi, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    api.teach("GET /health", {"status": "ok", "version": "0.1.0"})
    monkeypatch.setenv("TAGCAST_TOKEN", "of-the-environment")
    run("health")
    run("--token", "given", "health")
    assert [request.headers["authorization"] for request in api.requests] == [
        "Bearer of-the-environment",
        "Bearer given",
    ]


def test_lanes_are_counted_by_what_they_have_in_common_and_listed_by_host(api: FakeApi, run: Run) -> None:
    def lane(topic: str, name: str, host: str | None, told: str) -> dict[str, Any]:
        return {"topic": topic, "subscription": name, "state": "blocked", "host": host, "head": {"last_outcome": told}}

    first = [lane("a", "crm", "http://x:1", "http 500"), lane("a", "pulled", None, "circuit")]
    last = [lane("b", "crm", "http://x:1", "circuit")]
    api.teach("GET /lanes?limit=100", {"lanes": first, "next_cursor": "2"})
    api.teach("GET /lanes?limit=100&cursor=2", {"lanes": last, "next_cursor": None})

    groups = json.loads(run("--json", "lanes", "--by", "host").output)["groups"]

    assert [(each["host"], each["lanes"], each["topics"]) for each in groups] == [
        ("http://x:1", 2, 2),
        ("pulled by its members", 1, 1),
    ]
    assert groups[0]["outcomes"] == {"http 500": 1, "not attempted: host down (circuit open)": 1}
    listed = run("lanes", "--host", "http://x:1/").output
    assert ("crm" in listed, "pulled" in listed) == (True, False)
    assert "No lanes match." in run("lanes", "--host", "http://y").output


def test_a_list_goes_on_until_a_page_has_something(api: FakeApi, run: Run) -> None:
    message = {"message_id": ID, "accepted_at": "2026-11-27T10:00:00.000Z", "subscribers": {}, "tags": []}
    path = "GET /topics/fruit/messages?limit=50"
    api.teach(path, {"messages": [], "next_cursor": "b"})
    api.teach(f"{path}&cursor=b", {"messages": [], "next_cursor": "c"})
    api.teach(f"{path}&cursor=c", {"messages": [message], "next_cursor": "d"})

    output = run("messages", "fruit").output

    assert ID in output
    assert "--cursor d" in output
    assert len(api.requests) == 3

"""What the console's pages say and do."""

import re
from contextlib import ExitStack, suppress
from dataclasses import replace
from html import unescape
from pathlib import Path
from urllib.parse import quote

import pytest
from tagcast.model import Outcome, Push
from tagcast.pushing.circuit import LANES_MIN
from tagcast.registry.subscriptions import get_subscription
from tagcast.registry.waiting import waiting
from tagcast.rows.waiting import WaitingFor
from tagcast.sealing import open_secrets
from tagcast.trace_context import make_trace
from tagcast.verification import VerificationResult
from tagcast_client import ConflictError, DisagreementError, Filter, NewMessage, NotFoundError

from local.console.filter_form import FilterForm, filter_of, form_of
from tests.certificates import Issuer
from tests.fakes.dead_host import UNREACHED
from tests.fakes.stream import FakeStream
from tests.fakes.world import FAIL
from tests.unit.console.commands import exit_code
from tests.unit.console.visitor import Visitor

LANE = "/topics/orders/subscriptions/billing"
HOOK, NEW, SECRET = "https://example.com/hook", "https://example.com/new", "whsec_" + "QUJD" * 8
HOSTILE = "<script>alert(1)</script>\x1b]0;owned\x07\u202e\"'"
ENDPOINT = {"protocol": "https", "url": HOOK}
SEEN = "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b]0;owned\\x07\\u202e&#34;&#39;"


def found(pattern: str, text: str) -> str:
    """What a pattern with one group finds."""
    there = re.search(pattern, text)
    assert there is not None
    return there[1]


def test_the_overview_lists_what_is_blocked_with_its_head(visitor: Visitor, ids: list[str]) -> None:
    seen = visitor.get("/").text

    assert f'href="{LANE}"' in seen
    assert f'href="/topics/orders/messages/{ids[0]}?why=billing"' in seen
    assert "http 500" in seen
    assert "blocked</span>" in seen


def test_what_strangers_wrote_is_escaped_and_its_control_characters_are_shown(visitor: Visitor) -> None:
    sent = visitor.api.publish("orders", HOSTILE, tags=["<i>", "a\u202eb"], properties={"p": HOSTILE})
    visitor.fakes.deliver()
    shown = [
        visitor.get(f"/topics/orders/messages/{sent.message_id}?why=mailer").text,
        visitor.get("/topics/orders").text,
        visitor.get("/search?topic=orders").text,
        visitor.get("/topics/orders/history").text,
        visitor.get("/tail?topic=orders").text,
        visitor.get("/workbench?topic=orders&kind=sql92&text=p+%3D+1&tags=%3Cscript%3E").text,
        visitor.get("/search?id=%3Cscript%3E%1b").text,
    ]

    assert SEEN in shown[0]
    for text in shown:
        assert "<script>alert" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert all("a\\u202eb" in text for text in shown[:4])


def test_a_history_is_narrowed_by_its_form_and_says_what_it_cannot_read(visitor: Visitor, ids: list[str]) -> None:
    page = "/topics/orders/history"

    assert all(f"/topics/orders/messages/{each}" in visitor.get(page).text for each in ids)
    blocked = visitor.get(f"{page}?state=blocked&subscription=billing")
    assert f"/topics/orders/messages/{ids[0]}" in blocked.text
    assert "<option selected>blocked</option>" in blocked.text
    assert "No messages." in visitor.get(f"{page}?tag=absent").text
    for query, said in (
        ("property=x", "must be name=value"),
        ("subscription=nobody", "nobody"),
        ("within=x", "x"),
    ):
        refused = visitor.get(f"{page}?{query}")
        assert (refused.status, 'role="alert"' in refused.text, said in refused.text) == (200, True, True)
    assert visitor.get("/topics/absent/history").status == 404


def test_octets_are_shown_as_numbers(visitor: Visitor, ids: list[str]) -> None:
    [accepted] = visitor.api.publish_batch("orders", [NewMessage(b"\x00\xff<b>")])

    assert "00ff3c62 3e" in visitor.get(f"/topics/orders/messages/{accepted.message_id}").text  # type: ignore[union-attr]


def test_the_lane_says_what_is_planned(visitor: Visitor, ids: list[str]) -> None:
    seen = visitor.get(LANE).text

    assert "1 attempt so far" in seen
    assert "Then the retries are used up, and the delivery is discarded." in seen
    assert seen.count('class="plan"') == 3
    assert [act for act in ("retry", "skip", "pause", "resume") if f'{LANE}/{act}"' in seen] == [
        "retry",
        "skip",
        "pause",
    ]


def test_the_attempts_of_a_head_are_listed_with_what_its_receiver_said(visitor: Visitor) -> None:
    def refusing(push: Push) -> Outcome:
        return Outcome(False, "http 500", status=500, answer=b"<b>out of paper</b>")

    visitor.fakes.pusher.behaviours["billing"] = refusing
    [sent] = visitor.fakes.publish("one", topic="orders")
    visitor.fakes.deliver()

    for path in (LANE, f"/topics/orders/messages/{sent}?why=billing"):
        assert "<code>&lt;b&gt;out of paper&lt;/b&gt;</code>" in visitor.get(path).text


@pytest.mark.parametrize("act", ["retry", "pause"])
def test_an_act_is_told_before_it_is_done(visitor: Visitor, ids: list[str], act: str) -> None:
    preview = visitor.get(f"{LANE}/{act}")
    writes = visitor.fakes.store.writes
    assert 'method="post"' in preview.text

    done = visitor.act(f"{LANE}/{act}", {"head": preview.field("head")})

    assert done.location.startswith(f"{LANE}?done={act}&")
    assert visitor.fakes.store.writes > writes


def test_a_skip_is_done_to_the_head_that_was_told_of_and_no_other(visitor: Visitor, ids: list[str]) -> None:
    head = visitor.get(f"{LANE}/skip").field("head")
    assert head == ids[0]
    visitor.api.skip("orders", "billing", "somebody was faster")

    late = visitor.act(f"{LANE}/skip", {"head": head, "reason": "mine"})

    assert late.status == 409
    assert late.field("head") == ids[1]
    assert 'name="reason" value="mine"' in late.text
    assert visitor.api.get_message("orders", ids[1]).subscribers["billing"].state == "blocked"
    assert visitor.act(f"{LANE}/skip", {"head": ids[1], "reason": "mine"}).status == 303
    assert visitor.api.get_message("orders", ids[1]).subscribers["billing"].last_outcome == "skipped: mine"


@pytest.mark.parametrize("name", ["billing", "crm"])
def test_the_command_of_a_skip_names_the_message_that_its_page_shows(visitor: Visitor, name: str) -> None:
    visitor.fail("crm", "one", "two")
    lane = f"/topics/orders/subscriptions/{name}"
    shown = visitor.get(f"{lane}/skip")
    line = unescape(found("Equivalent command: <code>([^<]*)", shown.text))

    assert f" --message {shown.field('head')} " in line
    assert exit_code(visitor.world, line) == 0
    entry = visitor.api.get_message("orders", shown.field("head")).subscribers[name]
    assert entry.last_outcome == "skipped: …"


@pytest.mark.parametrize("query", ["", "?topic=orders", "?state=blocked&text=ill", "?host=https%3A%2F%2Fexample.com"])
def test_the_command_of_an_act_on_lanes_acts_on_the_same_lanes(visitor: Visitor, ids: list[str], query: str) -> None:
    shown = visitor.get(f"/bulk/pause{query}").text
    line = unescape(found("Equivalent command: <code>([^<]*)", shown))

    assert exit_code(visitor.world, f"{line} --yes") == 0
    assert visitor.lane() == "paused"
    assert "Equivalent command" not in visitor.get("/bulk/resume?need=paused").text, "no option says that"


def test_what_cannot_be_done_to_a_lane_is_said(visitor: Visitor) -> None:
    assert "The lane is active: nothing to retry." in visitor.get(f"{LANE}/retry").text
    visitor.api.pause("orders", "billing")
    assert visitor.act(f"{LANE}/resume", {}).location.startswith(f"{LANE}?done=resume&")


def test_an_endpoint_that_has_not_confirmed_is_unverified_and_offers_to_verify_it(visitor: Visitor) -> None:
    fakes, lane = visitor.fakes, "/topics/orders/subscriptions/new"
    fakes.verifier.consents[NEW] = VerificationResult("http 404")
    visitor.api.create_subscription("orders", "new", NEW, verification="required")
    fakes.publish("one", topic="orders")
    fakes.deliver()

    for path in ("/", "/topics/orders", lane):
        assert "unverified</span>" in visitor.get(path).text, path
    assert ["after verification" in visitor.get(path).text for path in ("/", lane)] == [True, True]
    seen = visitor.get(lane).text
    assert re.findall(r'id="act-([a-z]+)"', seen) == ["verify", "skip", "pause"]
    assert "Unverified: the endpoint has not confirmed yet (http 404)." in seen
    assert "tagcast verify orders new" in seen
    assert "A retry has no effect" in visitor.get(f"{lane}/retry").text
    refused = visitor.act(f"{lane}/verify", {})
    assert (refused.status, "The endpoint did not confirm: http 404" in refused.text) == (409, True)
    fakes.verifier.consents[NEW] = VerificationResult()
    assert "?done=verify&" in visitor.act(f"{lane}/verify", {}).location
    assert "unverified</span>" not in visitor.get(lane).text


def test_what_was_done_is_told_with_when_it_was_done(visitor: Visitor, ids: list[str]) -> None:
    assert "10:53:20 UTC: The head is attempted now." in visitor.get(f"{LANE}?done=retry&at=1800010400").text


def test_every_page_says_when_it_was_read_and_those_that_move_how_often_they_are_read_again(
    visitor: Visitor, ids: list[str]
) -> None:
    moving = (
        "/",
        "/topics",
        "/topics/orders",
        LANE,
        f"/topics/orders/messages/{ids[0]}",
        "/groups",
        "/hosts",
        "/costs",
    )
    for path in (*moving, "/search", "/workbench", f"{LANE}/retry", "/archive"):
        seen = visitor.get(path).text
        assert re.search(r'<time id="read-at" datetime="20', seen), path
        assert (re.search(r'<body data-live="[1-9]', seen) is not None) == (path in moving), path


def test_topics_are_found_by_a_part_of_their_name_those_with_trouble_first(visitor: Visitor, ids: list[str]) -> None:
    for name in ("a-quiet", "z-orders"):
        visitor.api.create_topic(name)

    def shown(query: str) -> list[str]:
        return re.findall(r'id="topic-([^"]+)"', visitor.get(f"/topics{query}").text)

    assert shown("") == ["orders", "a-quiet", "z-orders"]
    assert shown("?text=ORDER") == ["orders", "z-orders"]
    assert shown("?owing=yes") == ["orders"]
    assert '1 lane</a> <span class="dim">1 blocked' in visitor.get("/topics").text


def test_of_a_wide_message_the_states_are_counted_and_one_can_be_chosen(visitor: Visitor) -> None:
    for number in range(130):
        visitor.api.create_subscription("orders", f"well-{number:03d}", HOOK)
    [found] = visitor.fakes.publish("one", topic="orders")
    visitor.fakes.deliver()

    def shown(query: str) -> list[str]:
        return re.findall(r'id="of-([^"]+)"', visitor.get(f"/topics/orders/messages/{found}{query}").text)

    seen = visitor.get(f"/topics/orders/messages/{found}").words
    assert "Subscriptions 132 1 in a backlog 130 delivered 1 no delivery" in seen
    assert (shown("")[0], len(shown("")), len(shown("?page=2"))) == ("billing", 100, 32)
    assert shown("?state=blocked") == ["billing"]
    assert len(shown("?state=delivered&page=2")) == 30


def test_a_message_says_why_a_subscription_did_not_get_it(visitor: Visitor, ids: list[str]) -> None:
    seen = visitor.get(f"/topics/orders/messages/{ids[0]}?why=mailer").text

    assert "Explanation: mailer did not get this message" in seen
    assert "its filter did not match" in seen
    waiting = visitor.get(f"/topics/orders/messages/{ids[0]}?why=billing").text
    assert "Explanation: billing did not get this message yet" in waiting
    assert "no delivery</span>" in seen
    assert 'id="again-mailer"' not in seen, "what its filter does not match is not sent again"
    assert make_trace("orders", ids[0]).trace_id in seen
    assert (
        "Topic orders has no subscription nobody." in visitor.get(f"/topics/orders/messages/{ids[0]}?why=nobody").text
    )


def test_of_a_wide_message_those_who_are_owed_it_come_first_in_whatever_section_they_are(visitor: Visitor) -> None:
    visitor.fakes.world = replace(visitor.fakes.world, section_max=1)
    visitor.api.create_subscription("orders", "a-healthy", HOOK)
    visitor.api.create_subscription("orders", "a-late", HOOK)
    visitor.fakes.pusher.behaviours["a-late"] = lambda push: FAIL
    [sent] = visitor.fakes.publish("one", topic="orders")
    visitor.fakes.deliver()
    seen = visitor.get(f"/topics/orders/messages/{sent}").text
    shown = re.findall(r'<th scope="row"><a [^>]*>([^<]*)<', seen)
    assert shown == ["a-late", "billing"]
    assert "not_for_it" not in seen, "that nobody else has a part in it is not known of one section"
    behind = unescape(found(r'id="behind" href="([^"]+)"', seen))
    assert "a-healthy" in visitor.get(f"/topics/orders/messages/{sent}{behind}").text
    assert "2 in a backlog</a>" in seen


def test_a_group_shows_who_pulls_and_who_does_not_agree_with_its_filter(visitor: Visitor) -> None:
    page = "/topics/orders/subscriptions/workers"
    visitor.api.request("PUT", page, {"endpoint": {"protocol": "pull"}, "filter": {"kind": "tags", "tags": ["a"]}})
    assert "No members." in visitor.get(page).text

    visitor.api.heartbeat("orders", "workers", "one", filter={"kind": "tags", "tags": ["a"]})
    with pytest.raises(ConflictError):
        visitor.api.heartbeat("orders", "workers", "two", filter={"kind": "tags", "tags": ["b"]})

    seen = visitor.get(page).text
    assert "2 alive" in seen
    assert seen.count("</svg>agrees") == 1
    assert seen.count("</svg>disagrees") == 1


def test_a_form_that_is_sent_twice_publishes_once(visitor: Visitor) -> None:
    once = visitor.get("/topics/orders").field("once")
    fields = {"body": "x", "tags": "paid, eu", "properties": "price=12", "once": once}

    first, again = (visitor.act("/topics/orders", fields) for _ in range(2))

    assert first.location == again.location
    message = visitor.api.get_message("orders", first.location.rpartition("/")[2])
    assert (message.tags, message.properties) == (("paid", "eu"), {"price": "12"})


@pytest.mark.parametrize(("text", "fault"), [("price", "NAME=VALUE"), ("a=1\na=2", "a is given twice")])
def test_properties_that_cannot_be_read_are_named_and_nothing_is_published(
    visitor: Visitor, text: str, fault: str
) -> None:
    refused = visitor.act("/topics/orders", {"body": "x", "properties": text})

    assert (refused.status, "<code>/properties</code>" in refused.text, fault in refused.text) == (422, True, True)
    assert re.findall(r'name="(\w+)"[^>]* aria-invalid="true"', refused.text) == ["properties"]
    assert published(visitor) == 0
    tested = visitor.act("/workbench", {"kind": "sql92", "text": "a = 1", "properties": text})
    assert (tested.status, fault in tested.text) == (200, True)
    assert fault in visitor.get(f"/search?topic=orders&property={quote(text)}").text


def test_a_message_that_is_refused_stays_in_its_form(visitor: Visitor) -> None:
    once = visitor.get("/topics/orders").field("once")
    fields = {"body": "a <long> body", "tags": "paid, eu", "properties": "price=12", "once": once}

    refused = visitor.act("/topics/orders", {**fields, "ordering_key": "k" * 200})

    assert (refused.status, "<code>/ordering_key</code>" in refused.text) == (422, True)
    for text in ("a &lt;long&gt; body</textarea>", 'value="paid, eu"', "price=12</textarea>", "k" * 200):
        assert text in refused.text
    assert refused.field("once") == once
    assert published(visitor) == 0
    assert visitor.act("/topics/orders", fields).status == 303
    assert published(visitor) == 1


def published(visitor: Visitor) -> int:
    return sum(key.sk == "MSG" for key in visitor.fakes.store.rows)


@pytest.mark.parametrize(
    ("page", "fields"),
    [
        ("/topics/orders", {"body": "x", "once": "é"}),
        ("/topics/orders/messages/{id}/again", {"to": "mailer", "once": "é"}),
        ("/topics/orders/subscriptions/mailer/shadow/promote", {"shadow_version": "x"}),
        ("/topics/orders/subscriptions/mailer/shadow/promote", {"shadow_version": "9" * 5_000}),
        ("/workbench/save", {"topic": "orders", "subscription": "mailer", "version": "9" * 5_000, "confirmed": "yes"}),
    ],
)
def test_a_hidden_field_that_no_page_has_sent_is_refused(
    visitor: Visitor, ids: list[str], page: str, fields: dict[str, str]
) -> None:
    assert 400 <= visitor.act(page.format(id=ids[0]), fields).status < 500


def test_a_message_is_found_by_its_id_alone(visitor: Visitor, ids: list[str]) -> None:
    assert visitor.get(f"/search?id={ids[1]}").location == f"/topics/orders/messages/{ids[1]}"
    assert "No topic has a message" in visitor.get("/search?id=07549747200000009999").text


def test_a_search_finds_what_is_retained_and_retries_its_lanes(visitor: Visitor, ids: list[str]) -> None:
    paid = visitor.api.publish("orders", "x", tags=["paid"], properties={"price": "12"}).message_id
    visitor.fakes.deliver()

    found = visitor.get("/search?topic=orders&tag=paid&property=price%3D12&subscription=billing&state=blocked").text
    assert paid in found.replace('<span class="far">', "").replace("</span>", "")
    assert "1 result<" in found
    assert "0 results<" in visitor.get("/search?topic=orders&tag=paid&subscription=mailer&state=blocked").text
    assert "is not a duration" in visitor.get("/search?topic=orders&within=soon").text
    preview = visitor.get("/search/retry?topic=orders&tag=paid")
    done = visitor.act("/bulk/retry", {"lanes": preview.field("lanes"), "messages": ""})
    assert "Done: 1 lane" in ended(visitor, done.location)


def ended(visitor: Visitor, path: str) -> str:
    """The page of what was begun, when it has ended."""
    for _ in range(50):
        seen = visitor.get(path)
        if "In progress" not in seen.text:
            return seen.words
    raise AssertionError("it does not end")


def test_of_what_a_search_found_only_that_is_skipped_as_long_as_it_stands_at_a_head(
    visitor: Visitor, ids: list[str]
) -> None:
    third = visitor.api.publish("orders", "x", tags=["late"]).message_id
    visitor.fakes.deliver()
    none = visitor.get("/search/skip?topic=orders&tag=late")
    done = visitor.act(
        "/bulk/skip", {"lanes": none.field("lanes"), "messages": none.field("messages"), "reason": "wrong"}
    )
    assert "its head is another message" in ended(visitor, done.location)
    every = visitor.get("/search/skip?topic=orders")
    done = visitor.act("/bulk/skip", {"lanes": every.field("lanes"), "messages": ",".join(ids), "reason": "withdrawn"})
    assert "Done: 1 lane, 2 deliveries" in ended(visitor, done.location)
    outcomes = [visitor.api.get_message("orders", each).subscribers["billing"].last_outcome for each in ids]
    assert outcomes == ["skipped: withdrawn"] * 2
    assert visitor.api.get_message("orders", third).subscribers["billing"].state == "blocked"
    assert visitor.act("/bulk/skip", {"lanes": every.field("lanes"), "messages": ""}).status == 400
    no_heads = {"lanes": every.field("lanes"), "messages": "", "reason": "wrong"}
    assert visitor.act("/bulk/skip", no_heads).status == 400


def test_under_independent_retry_a_search_skips_its_messages_wherever_they_wait(visitor: Visitor) -> None:
    visitor.api.update_subscription("orders", "billing", retry={"strategy": "INDEPENDENT_RETRY"})
    tags = ["fine", "poison", "fine", "poison"]
    sent = [visitor.api.publish("orders", "x", tags=[tag]).message_id for tag in tags]
    visitor.fakes.deliver()

    preview = visitor.get("/search/skip?topic=orders&tag=poison")
    assert "and no others" in preview.text
    fields = {"lanes": preview.field("lanes"), "messages": preview.field("messages"), "reason": "bad"}
    assert "Done: 1 lane, 2 deliveries" in ended(visitor, visitor.act("/bulk/skip", fields).location)
    states = [visitor.api.get_message("orders", each).subscribers["billing"].state for each in sent]
    assert states == ["blocked", "cancelled", "blocked", "cancelled"]


def test_a_skip_of_chosen_lanes_cancels_only_the_heads_of_its_preview(visitor: Visitor, ids: list[str]) -> None:
    told = visitor.get("/bulk/skip?topic=orders")
    fields = {"lanes": told.field("lanes"), "heads": told.field("heads"), "messages": "", "reason": "wrong"}
    assert fields["heads"] == ids[0]
    visitor.api.skip("orders", "billing", "a colleague was faster")

    late = ended(visitor, visitor.act("/bulk/skip", fields).location)
    assert "Done: 0 lanes" in late
    assert "Unchanged lanes" in late
    assert visitor.api.get_message("orders", ids[1]).subscribers["billing"].state == "blocked"

    told = visitor.get("/bulk/skip?topic=orders")
    done = visitor.act("/bulk/skip", fields | {"heads": told.field("heads")})
    assert "Done: 1 lane, 1 delivery" in ended(visitor, done.location)
    assert visitor.api.get_message("orders", ids[1]).subscribers["billing"].last_outcome == "skipped: wrong"


def test_undo_leaves_a_lane_that_a_colleague_had_paused(visitor: Visitor, ids: list[str]) -> None:
    told = visitor.get("/bulk/pause?topic=orders")
    visitor.api.pause("orders", "billing")

    shown = ended(visitor, visitor.act("/bulk/pause", {"lanes": told.field("lanes"), "messages": ""}).location)
    assert "Done: 0 lanes" in shown
    assert "Undo" not in shown


def test_a_backlog_is_counted_anew_after_an_act_of_this_console(visitor: Visitor, ids: list[str]) -> None:
    def shown() -> list[str]:
        return re.findall(r'data-label="Backlog" class="num">([^<]*)<', visitor.get("/").text)

    assert shown() == ["2"]
    visitor.act(f"{LANE}/skip", {"head": ids[0], "reason": "wrong"})
    assert shown() == ["1"]


@pytest.mark.parametrize("path", ["/topics/orders/history", "/search"])
def test_a_duration_beyond_all_years_is_a_fault_of_the_form(visitor: Visitor, path: str) -> None:
    shown = visitor.get(f"{path}?topic=orders&within=999999d")
    assert (shown.status, "begins before the year 1" in unescape(shown.text)) == (200, True)


def test_a_preview_counts_the_lanes_that_one_action_cannot_include(
    visitor: Visitor, ids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local.console.bulk.LANES_MAX", 1)
    visitor.fail("crm", "three")
    shown = visitor.get("/bulk/retry?topic=orders").text
    assert "Not included: 1 further lane. One action has at most 1 lanes." in shown
    assert "Unchanged" not in shown


def test_lanes_that_are_chosen_are_paused_together_and_that_is_undone(visitor: Visitor, ids: list[str]) -> None:
    visitor.fail("crm", "three")

    assert (visitor.lane(), visitor.lane("crm")) == ("blocked", "lost_contact")
    told = visitor.get("/bulk/pause?host=https%3A%2F%2Fexample.com")
    assert "Pause 2 lanes of 1 topic?" in told.text
    assert "Selection: host <strong>https://example.com</strong>. Lanes that block later are not" in told.text
    done = visitor.act("/bulk/pause", {"lanes": told.field("lanes"), "messages": ""})
    assert "Undo: resume 2 lanes" in ended(visitor, done.location)
    assert (visitor.lane(), visitor.lane("crm")) == ("paused", "paused")
    shown = {asked: ">2 paused</a>" in visitor.get(f"/?{asked}").text for asked in ("", "need=person", "host=other")}
    assert shown == {"": True, "need=person": True, "host=other": False}
    undone = visitor.act("/bulk/resume", {"lanes": visitor.get(done.location).field("lanes")})
    assert "Done: 2 lanes" in ended(visitor, undone.location)
    assert (visitor.lane(), visitor.lane("crm")) == ("blocked", "retrying"), "INDEPENDENT_RETRY blocks nothing"
    assert "Nothing to resume in these lanes." in visitor.get("/bulk/resume?host=https%3A%2F%2Fexample.com").text


def test_a_message_is_sent_again_to_one_subscription_once_if_its_filter_matches_it(visitor: Visitor) -> None:
    sent = visitor.api.publish("orders", "x", tags=["paid"], properties={"price": "1"}).message_id
    visitor.fakes.deliver()
    again = f"/topics/orders/messages/{sent}/again"

    told = visitor.get(f"{again}?to=mailer")
    assert "delivered" in told.text
    assert "tagcast replay" not in told.text, "that command sends all that the archive keeps"
    fields = {"to": "mailer", "once": told.field("once")}
    first, second = visitor.act(again, fields), visitor.act(again, fields)

    assert first.location == second.location
    visitor.fakes.deliver()
    replay = visitor.api.get_message("orders", re.findall("[0-9]{20}", first.location)[0])
    assert (replay.replay_of, replay.tags, list(replay.subscribers)) == (sent, ("paid",), ["mailer"])
    visitor.api.update_filter("orders", "mailer", {"kind": "tags", "tags": ["other"]})
    assert "does not match this message now" in visitor.get(f"{again}?to=mailer").text


@pytest.mark.parametrize(
    ("scope", "pattern"), [("body", {"region": ["us"]}), ("envelope", {"detail": {"region": ["us"]}})]
)
def test_a_message_is_sent_again_to_a_filter_that_reads_its_body(
    visitor: Visitor, scope: str, pattern: dict[str, object]
) -> None:
    wanted = {"kind": "event_pattern", "pattern": pattern, "scope": scope}
    visitor.api.request("PUT", "/topics/orders/subscriptions/us", {"endpoint": ENDPOINT, "filter": wanted})
    sent = visitor.api.publish("orders", {"region": "us"}).message_id
    visitor.fakes.deliver()
    again = f"/topics/orders/messages/{sent}/again"

    told = visitor.get(f"{again}?to=us")

    assert "does not match" not in told.text
    assert visitor.act(again, {"to": "us", "once": told.field("once")}).status == 303


def test_a_message_whose_body_is_gone_says_so_or_comes_from_the_archive(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor.api.delete_subscription("orders", "billing")
    sent = visitor.api.publish("orders", "x", tags=["paid"]).message_id
    visitor.fakes.deliver()
    again = f"/topics/orders/messages/{sent}/again"
    assert "the archive is not readable here" in visitor.get(f"{again}?to=mailer").text

    kept = NewMessage("from the archive", ("paid",))
    monkeypatch.setattr(visitor.desk.jobs.runner, "message", lambda topic, message_id: kept)
    told = visitor.get(f"{again}?to=mailer")
    assert "The body comes from the archive." in told.text
    location = visitor.act(again, {"to": "mailer", "once": told.field("once")}).location
    [replayed] = [push for push in visitor.fakes.queue.entries if push.message_id in location]
    assert visitor.api.get_message("orders", replayed.message_id).body == b"from the archive"


def test_the_workbench_says_what_saving_a_filter_would_change(visitor: Visitor, ids: list[str]) -> None:
    for price in ("30", "80", "120"):
        visitor.api.publish("orders", "x", tags=["paid"] if price == "30" else [], properties={"price": price})
    visitor.fakes.deliver()
    asked = {"topic": "orders", "subscription": "mailer", "version": "1", "kind": "sql92"}

    def change(text: str) -> str:
        shown = found(r'id="change">((?s:.*?))</p>', visitor.act("/workbench", {**asked, "text": text}).text)
        return re.sub(r"\s+", " ", re.sub("<[^>]+>", "", shown)).strip()

    assert "mailer gets 2 more and 1 fewer of the 5 tested messages" in change("price > 50")
    assert "No change: 1 of the 5 tested messages match before and after." in change("price = 30")
    message = visitor.api.publish("orders", "x", properties={"price": "7"}).message_id
    loaded = visitor.get(f"/workbench?topic=orders&subscription=mailer&message={message}").text
    assert "price=7</textarea>" in loaded
    assert f"Test message, copied from {message}</legend>" in loaded
    assert "Also tested: 5 of the 5 oldest retained messages of orders (5 in total)." in loaded
    assert "job=backtest&amp;topic=orders&amp;subscription=mailer&amp;" in loaded


def test_lines_of_a_form_are_those_that_were_typed(visitor: Visitor) -> None:
    asked = {"topic": "orders", "kind": "sql92", "text": "price > 1\r\nAND price < 3", "properties": "price=2\r\nb=c"}
    bench = visitor.act("/workbench", asked).text
    assert ("price=2\nb=c</textarea>" in bench, "price &gt; 1\nAND price &lt; 3</textarea>" in bench) == (True, True)
    sent = visitor.act("/topics/orders", {"body": "one\r\ntwo"}).location
    assert visitor.api.get_message("orders", sent.rsplit("/", 1)[1]).body == b"one\ntwo"


def test_the_workbench_says_what_a_filter_says_and_what_is_wrong_with_one(visitor: Visitor, ids: list[str]) -> None:
    asked = {"topic": "orders", "kind": "sql92", "text": "price > 100", "properties": "price=120"}

    good = visitor.act("/workbench", asked).text
    assert good.count("<details") == 3
    assert "price is &#39;120&#39;" in good
    assert "/filter/expression" in visitor.act("/workbench", {**asked, "text": "price >"}).text
    assert "is a text, write" in visitor.act("/workbench", {**asked, "text": "region = eu"}).text.replace("&#39;", "'")
    assert "The text is not JSON" in visitor.act("/workbench", {**asked, "kind": "json", "text": "{"}).text
    for kind, text in (("event_pattern", '{"a": [1], "a": [2]}'), ("json", '{"a": 1, "a": 2}'), ("json", "[" * 5_000)):
        assert "The text is not JSON" in visitor.act("/workbench", {**asked, "kind": kind, "text": text}).text


def test_a_filter_is_saved_to_the_version_that_was_edited_and_to_no_other(visitor: Visitor) -> None:
    bench = visitor.get("/workbench?topic=orders&subscription=mailer")
    version = visitor.api.get_subscription("orders", "mailer").version
    asked = {
        "topic": "orders",
        "subscription": "mailer",
        "version": bench.field("version"),
        "kind": "tags",
        "text": "a",
        "tags": "b",
    }
    told = visitor.act("/workbench/save", asked)
    assert f"The update needs version {version} of the subscription" in told.text
    assert "<code>tagcast filter set orders mailer --tag a</code>" in told.text
    assert 'formaction="/workbench">Cancel' in told.text
    sent_back = visitor.act("/workbench", {name: told.field(name) for name in (*asked, "tags")})
    assert (">a</textarea>" in sent_back.text, sent_back.field("tags")) == (True, "b")
    assert visitor.api.get_subscription("orders", "mailer").version == version

    assert visitor.act("/workbench/save", {**asked, "confirmed": told.field("confirmed")}).status == 303
    assert visitor.api.get_subscription("orders", "mailer").filter == {"kind": "tags", "tags": ["a"]}
    assert visitor.api.get_subscription("orders", "mailer").endpoint == {"protocol": "https", "url": HOOK}
    late = visitor.act("/workbench/save", {**asked, "text": "late", "confirmed": "yes"})
    assert (late.status, "Nothing was updated" in late.text, ">late</textarea>" in late.text) == (412, True, True)
    assert late.field("version") == str(visitor.api.get_subscription("orders", "mailer").version)
    assert visitor.api.get_subscription("orders", "mailer").filter == {"kind": "tags", "tags": ["a"]}


def test_a_save_leaves_whatever_else_a_subscription_has_also_what_nobody_is_shown(visitor: Visitor) -> None:
    lane = "/topics/orders/subscriptions/"
    retry = {"strategy": "BACKOFF_RETRY", "max_retries": 7, "interval_seconds": 9}
    presented = Issuer("anybody").issue("tagcast")
    certificate = {"certificate": presented.chain, "private_key": presented.key}
    hidden = {"secret": SECRET, "headers": {"x-tenant": "a"}, "client_certificate": certificate}
    pushed = {"endpoint": {"protocol": "https", "url": HOOK}, "retry": retry, "timeout_seconds": 3, **hidden}
    group = {"endpoint": {"protocol": "pull"}, "ordered": True, "dead_letter_topic": "dead"}

    for name, settings in (("pushed", pushed), ("group", group)):
        visitor.api.request("PUT", lane + name, settings)
        before = visitor.api.request("GET", lane + name).json
        version = before["version"]
        asked = {"topic": "orders", "subscription": name, "version": str(version), "kind": "tags", "text": "a"}
        assert visitor.act("/workbench/save", {**asked, "confirmed": "yes"}).status == 303
        after = visitor.api.request("GET", lane + name).json
        assert after == {**before, "filter": {"kind": "tags", "tags": ["a"]}, "version": version + 1}
    assert "<code>commonName=tagcast</code>, expires" in visitor.get(f"{lane}pushed").text
    world = visitor.fakes.world
    kept = open_secrets(world, get_subscription(world, "orders", "pushed")).settings
    assert (kept.secret, kept.headers) == (SECRET, {"x-tenant": "a"})
    assert (kept.client_key or "").endswith(presented.key)


def test_a_shadow_is_made_looked_at_promoted_and_ended(visitor: Visitor) -> None:
    asked = {"topic": "orders", "subscription": "mailer", "kind": "tags", "text": "paid\nopen"}
    page = visitor.act("/workbench/shadow", asked).location
    sent = visitor.api.publish("orders", "x", tags=["open"]).message_id

    assert sent in visitor.get(page).text.replace('<span class="far">', "").replace("</span>", "")
    told = visitor.get(f"{page}/promote")
    version = told.field("shadow_version")
    assert f"<code>tagcast shadow promote orders mailer --shadow-version {version}</code>" in told.text
    done = visitor.act(f"{page}/promote", {"shadow_version": told.field("shadow_version")})
    assert "?done=promoted&" in done.location
    assert visitor.api.get_subscription("orders", "mailer").filter == {"kind": "tags", "tags": ["paid", "open"]}
    visitor.act("/workbench/shadow", {**asked, "text": "other"})
    shown = visitor.get(f"{page}/end").text
    assert "The shadow of mailer is deleted, with its results of 0 messages." in shown
    assert "<code>tagcast shadow delete orders mailer</code>" in shown
    assert visitor.act(f"{page}/end", {}).location.partition("?")[2].startswith("done=ended&")
    assert "No shadow." in visitor.get(page).text


@pytest.mark.parametrize(
    "described",
    [
        None,
        {"kind": "tags", "tags": ["a", "b c"]},
        {"kind": "tags", "tags": ["a,b"]},
        {"kind": "tag_expression", "expression": "a || b"},
        {"kind": "routing_key", "patterns": ["a.*", "b.#"]},
        {"kind": "sql92", "expression": "a = 1", "dialect": "rocketmq"},
        {"kind": "function", "function": "rate"},
        {"kind": "function", "function": "rate", "on_error": "block", "timeout_seconds": 3},
        {"kind": "invented_later", "text": "x"},
    ],
)
def test_a_filter_of_any_kind_is_the_same_after_the_form(described: dict[str, object] | None) -> None:
    assert filter_of(form_of(described)) == described
    assert isinstance(form_of(described), FilterForm)


def test_pages_of_jobs_are_listed_and_can_do_nothing_and_no_other_file_is_served(visitor: Visitor) -> None:
    folder: Path = visitor.desk.reports
    (folder / "audit").mkdir(parents=True)
    (folder / "audit/day.html").write_text("<title>2 violations &amp; more</title><script>alert(1)</script>certificate")
    (folder.parent / "secret.html").write_text("secret")

    assert 'href="/archive/audit/day.html">2 violations &amp; more</a>' in visitor.get("/archive").text
    page = visitor.get("/archive/audit/day.html")
    assert page.text.endswith("certificate")
    assert page.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    for path in ("/archive/..%2fsecret.html", "/archive/audit/..%2f..%2fsecret.html", "/archive/absent.html"):
        assert visitor.get(path).status == 404


def test_rates_are_those_of_the_last_minute_counted_since_somebody_watches(visitor: Visitor) -> None:
    assert "counting" in visitor.get("/topics/orders/rates").text
    stream = FakeStream(visitor.fakes)
    visitor.fakes.publish(*map(str, range(8)), topic="orders")
    stream.pass_on()
    visitor.fakes.deliver()
    stream.pass_on()
    visitor.fakes.clock.instant += 10_000

    seen = re.sub("<[^>]+>", "", visitor.get("/topics/orders/rates").text)

    assert seen.strip() == "0.80 published, 0 delivered, 0.10 failed per second"


def test_a_tail_that_is_asked_for_more_waits_and_says_when_its_topic_is_gone(visitor: Visitor) -> None:
    seen = visitor.get("/tail?topic=orders&subscription=billing")
    assert "No matching events yet." in seen.text
    stream = FakeStream(visitor.fakes)
    visitor.fakes.publish("one", topic="orders")
    visitor.fakes.deliver()
    stream.pass_on()
    after = found(r"after=([^\"]+)\"", seen.text)

    asked = visitor.get(f"/tail?topic=orders&subscription=billing&after={after}")

    assert f'href="{LANE}"' in asked.text
    assert "blocked</span>" in asked.text
    for name in ("billing", "mailer"):
        visitor.api.delete_subscription("orders", name)
    visitor.api.delete_topic("orders")
    gone = visitor.get(f"/tail?topic=orders&after={after}")
    assert (gone.status, 'role="alert"' in gone.text, "hx-get" in gone.text) == (200, True, False)
    assert visitor.get("/tail?topic=orders").status == 404


def test_a_tail_that_finds_no_place_to_wait_in_is_shown_and_goes_on_all_the_same(visitor: Visitor) -> None:
    after = found(r"after=([^\"]+)\"", visitor.get("/tail?topic=orders").text)

    with ExitStack() as held:
        for _ in range(visitor.fakes.world.waiting_max):
            held.enter_context(waiting(visitor.fakes.world, "orders", WaitingFor.EVENTS, 20))
        shown = visitor.get(f"/tail?topic=orders&after={after}")

    assert (shown.status, 'role="alert"' in shown.text, "hx-get" in shown.text) == (200, False, True)


def test_groups_are_listed_with_who_is_there_and_what_waits(visitor: Visitor) -> None:
    assert "No consumer groups in 1 topic." in visitor.get("/groups").text
    visitor.api.create_subscription("orders", "idle", {"protocol": "pull"})
    visitor.api.create_subscription("orders", "workers", {"protocol": "pull"})
    for member_id, wants in (("c1", None), ("c2", Filter.tags("x"))):
        with suppress(DisagreementError):
            visitor.api.heartbeat("orders", "workers", member_id, filter=wants)
    visitor.fakes.publish("one", topic="orders")
    visitor.fakes.deliver()

    told = visitor.get("/groups").words

    assert re.search(r"orders / idle active no members — 1 0 0 orders / workers active 2 1 disagrees .* 1 0 0 ", told)


def test_costs_leave_out_a_topic_that_is_deleted_while_they_are_read(visitor: Visitor) -> None:
    visitor.api.create_topic("brief")

    def deleted(request: object) -> None:
        visitor.world.accidents = []
        with suppress(NotFoundError):
            visitor.api.delete_topic("brief")

    visitor.world.accidents = [lambda request: None, deleted]
    seen = visitor.get("/costs")
    assert (seen.status, ">orders</a>" in seen.text, "brief" in seen.text) == (200, True, False)


def test_costs_are_estimated_from_what_was_counted_and_said_to_be_so(visitor: Visitor) -> None:
    assert "counting" in visitor.get("/costs").text
    stream = FakeStream(visitor.fakes)
    visitor.fakes.publish(*map(str, range(300)), topic="orders")
    stream.pass_on()
    visitor.fakes.clock.instant += 30_000

    told = visitor.get("/costs").words

    assert "An estimate, not a bill" in told
    assert re.search(r"orders 10\.0 0 9\d\.\d\d USD 0\.00 USD", told)


YEAR_MS = 365 * 86_400_000


@pytest.mark.parametrize("earlier_ms", [0, YEAR_MS])
def test_hosts_that_give_no_answer_are_listed_with_their_lanes_and_no_probe_in_the_past(
    visitor: Visitor, earlier_ms: int
) -> None:
    visitor.fakes.clock.instant -= earlier_ms
    assert "No recent host failures." in visitor.get("/hosts").text
    for number in range(LANES_MIN):
        visitor.api.create_subscription("orders", f"S{number}", "https://dead.example.com/hook")
        visitor.fakes.pusher.behaviours[f"S{number}"] = lambda push: UNREACHED
    visitor.fakes.publish("one", topic="orders")
    visitor.fakes.deliver()

    seen = visitor.get("/hosts")

    assert "https://dead.example.com open" in seen.words
    assert ("with the next attempt" in seen.words) == (earlier_ms == YEAR_MS)
    lanes = visitor.get(unescape(found(r'id="host-[^"]*" href="([^"]+)"', seen.text))).words
    assert f"Selected lanes {LANES_MIN} of {LANES_MIN + 1}" in lanes


def test_a_page_of_expired_messages_links_to_the_messages_behind(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local.console.topics.MESSAGES_SHOWN", 1)
    visitor.api.update_topic("orders", retention_seconds=60)
    visitor.fakes.publish("expires", topic="orders")
    visitor.api.update_topic("orders", retention_seconds=3_600)
    [stays] = visitor.fakes.publish("stays", topic="orders")
    visitor.fakes.deliver()
    visitor.fakes.clock.sleep(61)

    page = visitor.get("/topics/orders").text

    assert "The messages of this page have expired." in page
    assert stays not in page
    link = unescape(found(r'href="(\?messages=[^"]+)">Next messages', page))
    assert stays in visitor.get(f"/topics/orders{link}").text

"""Topics and subscriptions that are made and changed by forms."""

import re
from html import unescape

import pytest
from tagcast.registry.subscriptions import get_subscription
from tagcast.sealing import open_secrets

from tests.unit.console.visitor import Visitor

HOOK, SECRET = "https://example.com/hook", "whsec_" + "QUJD" * 8
LANE = "/topics/orders/subscriptions/billing"


def fields_of(text: str) -> dict[str, str]:
    """What a browser would send of a form as it stands."""
    main = text[text.index('<form method="post"') : text.index("</main>")]
    found = dict(re.findall(r'<input(?! type="checkbox")[^>]*? name="([a-z_]+)" value="([^"]*)"', main))
    found |= dict(re.findall(r'<input type="checkbox" name="([a-z_]+)" value="([^"]*)" checked>', main))
    found |= dict(re.findall(r'<textarea name="([a-z_]+)"[^>]*>([^<]*)</textarea>', main))
    for name, options in re.findall(r'<select name="([a-z_]+)">(.*?)</select>', main, re.DOTALL):
        chosen = re.search(r"<option(?: value=\"([^\"]*)\")? selected>([^<]*)", options)
        first = re.search(r'<option value="([^"]*)"', options)
        found[name] = (chosen.group(1) or chosen.group(2)) if chosen else first.group(1) if first else ""
    return {name: unescape(value) for name, value in found.items() if name != "token"}


def command(text: str) -> str:
    found = re.search(r'id="command".*?<pre[^>]*>([^<]*)</pre>', text, re.DOTALL)
    return unescape(found.group(1)) if found else ""


def test_a_topic_is_made_with_its_command_shown_and_one_that_exists_is_refused(visitor: Visitor) -> None:
    said = {"name": "fresh", "retention_seconds": "12h", "ordering": "key", "max_message_bytes": "", "keep": "life"}

    assert command(visitor.act("/new-topic", said).text) == (
        "tagcast topic create fresh --retention 43200 --ordering key --keep life"
    )
    assert visitor.act("/new-topic", {**said, "do": "yes"}).location == "/topics/fresh"
    made = visitor.api.get_topic("fresh")
    assert (made.retention_seconds, made.ordering, made.keep) == (43_200, "key", "life")
    again = visitor.act("/new-topic", {**said, "ordering": "none", "do": "yes"})
    assert (again.status, "the topic already exists. Choose another name" in again.text) == (422, True)
    assert visitor.api.get_topic("fresh").ordering == "key"
    wrong = visitor.act("/new-topic", {**said, "name": "other", "retention_seconds": "1s", "do": "yes"})
    assert "<code>/retention_seconds</code>" in wrong.text
    assert "is not a duration" in visitor.act("/new-topic", {**said, "retention_seconds": "soon", "do": "yes"}).text


def test_a_topic_keeps_what_its_form_does_not_change(visitor: Visitor) -> None:
    visitor.api.create_topic("kept", retention_seconds=600, ordering="key", keep="life")
    fields = fields_of(visitor.get("/topics/kept/edit").text)
    visitor.fakes.clock.sleep(1)
    changed = {**fields, "retention_seconds": "20m"}

    assert command(visitor.act("/topics/kept/edit", fields).text) == ""
    assert command(visitor.act("/topics/kept/edit", changed).text) == "tagcast topic update kept --retention 1200"
    assert visitor.act("/topics/kept/edit", {**changed, "do": "yes"}).status == 303
    now = visitor.api.get_topic("kept")
    assert (now.retention_seconds, now.ordering, now.keep) == (1_200, "key", "life")
    assert visitor.act("/topics/kept/edit", {**changed, "retention_seconds": "30m", "do": "yes"}).status == 422, (
        "another version"
    )


def test_a_subscription_is_made_with_its_command_shown_and_its_secret_told_once(visitor: Visitor) -> None:
    fields = fields_of(visitor.get("/topics/orders/subscribe").text)
    said = {**fields, "name": "crm", "target": HOOK, "kind": "tags", "text": "paid, eu", "timeout_seconds": "5"}

    assert command(visitor.act("/topics/orders/subscribe", said).text).startswith(
        f"tagcast subscribe orders crm --url {HOOK} --tag paid --tag eu"
    )
    told = visitor.act("/topics/orders/subscribe", {**said, "secret": "generate", "do": "yes"})
    assert re.search(r"whsec_[A-Za-z0-9+/=]+</pre>", told.text)
    made = visitor.api.get_subscription("orders", "crm")
    assert made.filter == {"kind": "tags", "tags": ["paid", "eu"]}
    assert (made.timeout_seconds, made.signatures) == (5, ("v1",))
    assert visitor.act("/topics/orders/subscribe", {**said, "do": "yes"}).status == 422, "it exists"
    wrong = visitor.act("/topics/orders/subscribe", {**said, "name": "x", "timeout_seconds": "99", "do": "yes"})
    assert "<code>/timeout_seconds</code>" in wrong.text
    assert 'value="99"' in wrong.text, "what was typed is there still"


def test_a_subscription_keeps_what_its_form_does_not_change_secrets_included(visitor: Visitor) -> None:
    lane = "/topics/orders/subscriptions/kept"
    retry = {"strategy": "BACKOFF_RETRY", "max_retries": 7, "interval_seconds": 9}
    settings = {"endpoint": {"protocol": "https", "url": HOOK}, "retry": retry, "secret": SECRET,
                "headers": {"x-tenant": "a", "x-old": "b"}, "filter": {"kind": "tags", "tags": ["a"]}}  # fmt: skip
    visitor.api.request("PUT", lane, settings)
    before = visitor.api.request("GET", lane).json
    fields = fields_of(visitor.get(f"{lane}/edit").text)

    assert command(visitor.act(f"{lane}/edit", fields).text) == ""
    assert visitor.act(f"{lane}/edit", {**fields, "do": "yes"}).location == lane
    changed = {**fields, "timeout_seconds": "4", "strategy": "EXPONENTIAL_DECAY_RETRY", "interval_seconds": "",
               "headers": "x-tenant: z\nx-old:"}  # fmt: skip
    assert command(visitor.act(f"{lane}/edit", changed).text) == (
        "tagcast subscription update orders kept --strategy EXPONENTIAL_DECAY_RETRY --max-retries 7 --timeout 4 "
        "--header 'x-tenant: …' --without-header x-old"
    )
    assert "?done=changed&" in visitor.act(f"{lane}/edit", {**changed, "do": "yes"}).location
    after = visitor.api.request("GET", lane).json
    assert (after["filter"], after["endpoint"], after["timeout_seconds"]) == (before["filter"], before["endpoint"], 4)
    assert (after["retry"]["strategy"], after["retry"]["max_retries"]) == ("EXPONENTIAL_DECAY_RETRY", 7)
    world = visitor.fakes.world
    kept = open_secrets(world, get_subscription(world, "orders", "kept")).settings
    assert (kept.secret, kept.headers) == (SECRET, {"x-tenant": "z"})


@pytest.mark.parametrize(
    ("field", "value", "pointer"),
    [
        ("max_per_second", "many", "/max_per_second"),
        ("headers", "x-tenant", "/headers"),
        ("max_retries", "-1", "/retry"),
        ("interval_seconds", "soon", "/retry/interval_seconds"),
        ("headers", "x-a: 1\nx-a: 2", "/headers"),
        ("ordered", "", "/ordered"),
    ],
)
def test_a_field_that_cannot_be_read_is_named(visitor: Visitor, field: str, value: str, pointer: str) -> None:
    fields = fields_of(visitor.get(f"{LANE}/edit").text)
    refused = visitor.act(f"{LANE}/edit", {**fields, field: value, "do": "yes"})
    assert (refused.status, f"<code>{pointer}" in refused.text) == (422, True)


def test_an_emptied_field_gets_its_default_and_the_command_says_how(visitor: Visitor) -> None:
    visitor.api.create_topic("short", retention_seconds=600)
    fields = {**fields_of(visitor.get("/topics/short/edit").text), "retention_seconds": ""}

    assert command(visitor.act("/topics/short/edit", fields).text) == "tagcast topic update short --without retention"
    assert visitor.act("/topics/short/edit", {**fields, "do": "yes"}).status == 303
    assert visitor.api.get_topic("short").retention_seconds == 86_400


def test_a_header_that_cannot_be_read_is_only_in_its_field(visitor: Visitor) -> None:
    fields = {"name": "fresh", "target": HOOK, "headers": "x-a: 1\n\nauthorization s3cret", "do": "yes"}
    refused = visitor.act("/topics/orders/subscribe", fields)
    assert (refused.status, "Line 3 has no :" in refused.text, refused.text.count("s3cret")) == (422, True, 1)


@pytest.mark.parametrize(
    ("path", "fields", "fault"),
    [
        ("/new-topic", {"name": "fresh", "events_topic": "absent"}, "the events_topic absent does not exist"),
        ("/new-topic", {"name": " ", "events_topic": "orders"}, "is not the name of a topic"),
        ("/topics/orders/subscribe", {"name": "..", "target": HOOK}, "is not the name of a topic or a subscription"),
        ("/topics/absent/subscribe", {"name": "fresh", "target": HOOK}, "topic absent does not exist"),
    ],
)
def test_a_refused_form_keeps_its_fields_whatever_the_reason(
    visitor: Visitor, path: str, fields: dict[str, str], fault: str
) -> None:
    refused = visitor.act(path, {**fields, "do": "yes"})

    assert (refused.status, fault in refused.text) == (422, True)
    for value in fields.values():
        assert f'value="{value.strip()}"' in refused.text

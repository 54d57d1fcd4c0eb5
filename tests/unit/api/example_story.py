"""The story that the examples of the API document tell: `python -m tests.unit.api.example_story` writes them anew."""

import json
from pathlib import Path
from typing import Any

from tagcast.model import Outcome
from tagcast_aws.api.http import openapi
from tagcast_aws.api.routes import MANAGE, PUBLISH, PULL

from tests.fakes.handlers import answered
from tests.fakes.stream import FakeStream
from tests.fakes.world import FakeWorld

FILE = Path(openapi.__file__).parent / "examples.json"
BILLING = "/topics/orders/subscriptions/billing"
WORKERS = "/topics/orders/subscriptions/workers"
DEAD = "/topics/orders/subscriptions/dead"
MEMBER = "/topics/orders/subscriptions/workers/members/10.0.0.1@7"
PAID = {"kind": "tags", "tags": ["paid"]}
DEAR = {"kind": "sql92", "expression": "amount >"}
ORDER = {"body": "order 17", "tags": ["paid"], "properties": {"amount": "30"}}
STORY: tuple[tuple[str, str, str, Any], ...] = (
    ("health", "GET", "/health", None),
    ("create_topic", "PUT", "/topics/orders", {"retention_seconds": 86400, "ordering": "topic"}),
    ("update_topic", "PATCH", "/topics/orders", {"max_message_bytes": 131072}),
    ("list_topics", "GET", "/topics", None),
    ("create_subscription", "PUT", BILLING, {
        "endpoint": {"protocol": "https", "url": "https://example.com/hook"},
        "filter": PAID,
        "retry": {"strategy": "BACKOFF_RETRY", "max_retries": 3, "interval_seconds": 15},
        "signature": "v1a",
    }),
    ("update_subscription", "PATCH", BILLING, {"timeout_seconds": 5, "headers": {"x-tenant": "orders"}}),
    ("rotate_secret", "POST", f"{BILLING}/secret/rotate", {"secret": "generate", "grace_seconds": 604800}),
    ("verify_endpoint", "POST", f"{BILLING}/verify", {}),
    ("watched", "GET", "/topics/orders/tail", None),
    ("publish", "POST", "/topics/orders/messages", ORDER),
    ("publish_batch", "POST", "/topics/orders/messages/batch", {"messages": [
        {"body": "order 18", "tags": ["paid"]},
        {"body_base64": "AP8=", "tags": ["unpaid"]},
        {"body": "order 19", "tags": [f"line-{number}" for number in range(1, 12)]},
    ]}),
    ("deliver", "", "", None),
    ("archive", "", "", None),
    ("tail", "GET", "/topics/orders/tail?wait_seconds=20", None),
    ("pause", "POST", f"{BILLING}/pause", {}),
    ("list_attempts", "GET", "/topics/orders/messages/{first}/attempts", None),
    ("get_topic", "GET", "/topics/orders", None),
    ("list_subscriptions", "GET", "/topics/orders/subscriptions", None),
    ("get_subscription", "GET", BILLING, None),
    ("list_lanes", "GET", "/lanes", None),
    ("retry_lanes", "POST", "/lanes/retry", {"state": "paused", "dry_run": True}),
    ("resume_lanes", "POST", "/lanes/resume", {"topic": "orders", "state": "paused"}),
    ("pause_lanes", "POST", "/lanes/pause", {"lanes": [{"topic": "orders", "subscription": "billing"}]}),
    ("list_backlog", "GET", f"{BILLING}/backlog", None),
    ("list_messages", "GET", "/topics/orders/messages", None),
    ("get_message", "GET", "/topics/orders/messages/{first}", None),
    ("find_message", "GET", "/messages/{first}?only=failing", None),
    ("read_history", "GET", "/topics/orders/history?tag=apple", None),
    ("explain", "GET", "/topics/orders/messages/{first}/explain?subscription=billing", None),
    ("retry_topic", "POST", "/topics/orders/retry", {}),
    ("resume", "POST", f"{BILLING}/resume", {}),
    ("retry", "POST", f"{BILLING}/retry", {}),
    ("skip_lanes", "POST", "/lanes/skip", {"reason": "withdrawn", "dry_run": True, "outcome": "http 503"}),
    ("skip", "POST", f"{BILLING}/skip", {"reason": "the order was withdrawn"}),
    ("replay", "POST", f"{BILLING}/replay", {"messages": [{**ORDER, "replay_of": "{first}"}]}),
    ("set_shadow", "PUT", f"{BILLING}/shadow", {"filter": {"kind": "tags", "tags": ["paid", "unpaid"]}}),
    ("get_shadow", "GET", f"{BILLING}/shadow", None),
    ("promote_shadow", "POST", f"{BILLING}/shadow/promote", {}),
    ("update_filter", "PUT", f"{BILLING}/filter", {"filter": PAID}),
    ("list_versions", "GET", f"{BILLING}/versions", None),
    ("again", "PUT", f"{BILLING}/shadow", {"filter": None}),
    ("delete_shadow", "DELETE", f"{BILLING}/shadow", None),
    ("test_filter", "POST", "/filters/test", {"filter": PAID, "message": {"body": "", "tags": ["paid"]}}),
    ("heartbeat", "PUT", MEMBER, {"filter": PAID, "member_version": "1.4"}),
    ("list_members", "GET", "/topics/orders/subscriptions/workers/members", None),
    ("leave", "DELETE", MEMBER, None),
    ("no more workers", "DELETE", "/topics/orders/subscriptions/workers", None),
    ("delete_subscription", "DELETE", BILLING, None),
    ("create_subscriptions", "POST", "/topics/orders/subscriptions/batch", {"subscriptions": [
        {"name": "billing", "endpoint": {"protocol": "https", "url": "https://example.com/hook"}, "filter": PAID},
        {"name": "mailer", "endpoint": {"protocol": "https", "url": "https://example.com/mail"}, "filter": DEAR},
    ]}),
    ("no more billing", "DELETE", BILLING, None),
    ("made at a dead host", "PUT", DEAD, {"endpoint": {"protocol": "https", "url": "https://example.net/hook"}}),
    ("unheard", "POST", "/topics/orders/messages", ORDER),
    ("deliver", "", "", None),
    ("list_hosts", "GET", "/hosts", None),
    ("no more dead", "DELETE", DEAD, None),
    ("made", "PUT", WORKERS, {"endpoint": {"protocol": "pull"}}),
    ("more", "POST", "/topics/orders/messages", ORDER),
    ("deliver", "", "", None),
    ("pull", "POST", f"{WORKERS}/pull", {"max_messages": 10, "wait_seconds": 20, "visibility_timeout_seconds": 30}),
    ("extend", "POST", f"{WORKERS}/extend", {"receipt_handles": ["{handle}"], "visibility_timeout_seconds": 60}),
    ("nack", "POST", f"{WORKERS}/nack", {"receipt_handles": ["{handle}"]}),
    ("pulled", "POST", f"{WORKERS}/pull", {}),
    ("ack", "POST", f"{WORKERS}/ack", {"receipt_handles": ["{handle}"]}),
    ("removed", "DELETE", WORKERS, None),
    ("delete_topic", "DELETE", "/topics/orders", None),
)  # fmt: skip
NAMES = {route.name for route in (*PUBLISH, *PULL, *MANAGE)}
"""All else is asked only for the sake of what comes next."""


def played() -> dict[str, dict[str, Any]]:
    """Tell the story to the shipped handlers; answers what each operation was asked and said."""
    fakes = FakeWorld()
    fakes.pusher.behaviours["billing"] = lambda push: Outcome(False, "http 503", status=503, answer=b"We are moving.")
    fakes.pusher.behaviours["dead"] = lambda push: Outcome(False, "connection refused", unreached=True)
    found: dict[str, dict[str, Any]] = {}
    stream = FakeStream(fakes)
    known = {"first": "", "handle": ""}
    for name, method, target, body in STORY:
        if name == "deliver":
            stream.pass_on()
            fakes.deliver()
            continue
        if name == "archive":
            stream.pass_on()
            continue
        asked = None if body is None else json.loads(_filled_in(json.dumps(body), known))
        status, answer = _send(fakes, method, _filled_in(target, known), asked)
        if name == "publish":
            known["first"] = answer["message_id"]
        if name in ("pull", "pulled"):
            known["handle"] = answer["messages"][0]["receipt_handle"]
        found[name] = {
            **({} if asked in (None, {}) else {"body": asked}),
            "status": status,
            **({} if answer is None else {"answer": answer}),
        }
    return {name: each for name, each in found.items() if name in NAMES}


def _filled_in(text: str, known: dict[str, str]) -> str:
    for name, value in known.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _send(fakes: FakeWorld, method: str, target: str, body: Any) -> tuple[int, Any]:
    reply = answered(fakes.world, method, target, None if body is None else json.dumps(body))
    return int(reply["statusCode"]), json.loads(reply["body"]) if reply.get("body") else None


if __name__ == "__main__":
    FILE.write_text(json.dumps(played(), indent=1, ensure_ascii=False) + "\n")

"""The id, the group and an example of each route in the API document. Clients name their methods by the ids."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

TAGS = {
    "publishing": "Publish messages.",
    "messages": "Track messages, and explain their deliveries.",
    "topics": "Named streams of messages.",
    "subscriptions": "Subscriptions of a topic, and their settings.",
    "lanes": "Deliveries of a subscription: pause, resume, retry, skip, list the backlog.",
    "filters": "Shadows (candidate filters that run alongside the active one), and tests of filters.",
    "groups": "Consumer groups: members, pulls and acknowledgements.",
    "service": "The service itself.",
}
TAG_OF_WEBHOOKS = "pushes"
_TOPIC = "/topics/{topic}"
_MESSAGE = "/topics/{topic}/messages/{message_id}"
_SUBSCRIPTION = "/topics/{topic}/subscriptions/{subscription}"
OPERATIONS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("POST", f"{_TOPIC}/messages"): ("publish", "publishing"),
    ("POST", f"{_TOPIC}/messages/batch"): ("publish_batch", "publishing"),
    ("POST", f"{_SUBSCRIPTION}/replay"): ("replay", "publishing"),
    ("POST", f"{_SUBSCRIPTION}/pull"): ("pull", "groups"),
    ("POST", f"{_SUBSCRIPTION}/ack"): ("ack", "groups"),
    ("POST", f"{_SUBSCRIPTION}/nack"): ("nack", "groups"),
    ("POST", f"{_SUBSCRIPTION}/extend"): ("extend", "groups"),
    ("POST", f"{_TOPIC}/retry"): ("retry_topic", "lanes"),
    ("GET", f"{_TOPIC}/messages"): ("list_messages", "messages"),
    ("GET", _MESSAGE): ("get_message", "messages"),
    ("GET", "/messages/{message_id}"): ("find_message", "messages"),
    ("GET", f"{_MESSAGE}/attempts"): ("list_attempts", "messages"),
    ("GET", f"{_MESSAGE}/explain"): ("explain", "messages"),
    ("GET", f"{_TOPIC}/tail"): ("tail", "messages"),
    ("GET", f"{_TOPIC}/history"): ("read_history", "messages"),
    ("GET", "/topics"): ("list_topics", "topics"),
    ("PUT", _TOPIC): ("create_topic", "topics"),
    ("PATCH", _TOPIC): ("update_topic", "topics"),
    ("GET", _TOPIC): ("get_topic", "topics"),
    ("DELETE", _TOPIC): ("delete_topic", "topics"),
    ("GET", f"{_TOPIC}/subscriptions"): ("list_subscriptions", "subscriptions"),
    ("PUT", _SUBSCRIPTION): ("create_subscription", "subscriptions"),
    ("POST", f"{_TOPIC}/subscriptions/batch"): ("create_subscriptions", "subscriptions"),
    ("PATCH", _SUBSCRIPTION): ("update_subscription", "subscriptions"),
    ("GET", _SUBSCRIPTION): ("get_subscription", "subscriptions"),
    ("DELETE", _SUBSCRIPTION): ("delete_subscription", "subscriptions"),
    ("PUT", f"{_SUBSCRIPTION}/filter"): ("update_filter", "subscriptions"),
    ("POST", f"{_SUBSCRIPTION}/secret/rotate"): ("rotate_secret", "subscriptions"),
    ("POST", f"{_SUBSCRIPTION}/verify"): ("verify_endpoint", "subscriptions"),
    ("GET", f"{_SUBSCRIPTION}/versions"): ("list_versions", "subscriptions"),
    ("POST", f"{_SUBSCRIPTION}/pause"): ("pause", "lanes"),
    ("POST", f"{_SUBSCRIPTION}/resume"): ("resume", "lanes"),
    ("POST", f"{_SUBSCRIPTION}/retry"): ("retry", "lanes"),
    ("POST", f"{_SUBSCRIPTION}/skip"): ("skip", "lanes"),
    ("GET", "/lanes"): ("list_lanes", "lanes"),
    ("POST", "/lanes/retry"): ("retry_lanes", "lanes"),
    ("POST", "/lanes/pause"): ("pause_lanes", "lanes"),
    ("POST", "/lanes/resume"): ("resume_lanes", "lanes"),
    ("POST", "/lanes/skip"): ("skip_lanes", "lanes"),
    ("GET", "/hosts"): ("list_hosts", "lanes"),
    ("GET", f"{_SUBSCRIPTION}/backlog"): ("list_backlog", "lanes"),
    ("PUT", f"{_SUBSCRIPTION}/shadow"): ("set_shadow", "filters"),
    ("GET", f"{_SUBSCRIPTION}/shadow"): ("get_shadow", "filters"),
    ("DELETE", f"{_SUBSCRIPTION}/shadow"): ("delete_shadow", "filters"),
    ("POST", f"{_SUBSCRIPTION}/shadow/promote"): ("promote_shadow", "filters"),
    ("PUT", f"{_SUBSCRIPTION}/members/{{member_id}}"): ("heartbeat", "groups"),
    ("DELETE", f"{_SUBSCRIPTION}/members/{{member_id}}"): ("leave", "groups"),
    ("GET", f"{_SUBSCRIPTION}/members"): ("list_members", "groups"),
    ("POST", "/filters/test"): ("test_filter", "filters"),
    ("GET", "/health"): ("health", "service"),
    ("GET", "/openapi.json"): ("get_openapi", "service"),
}


@cache
def examples() -> Mapping[str, Mapping[str, Any]]:
    """Return one example for each operation: its request (``body``) and its answer (``status``, ``answer``).

    The service gave these answers in the story of tests/unit/api/example_story.py. A test runs the story again.
    """
    found: Mapping[str, Mapping[str, Any]] = json.loads((Path(__file__).parent / "examples.json").read_text())
    return found

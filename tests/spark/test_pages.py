"""The pages say what happened: a headline praises no more than was done, and no sentence names a table without rows."""

from typing import Any

import pytest

from glue_jobs.pages.certificate import _promises, _violations
from glue_jobs.pages.delivery_page import SUBSCRIPTIONS_SHOWN, _subscriptions, _title

ENDS = ("matched", "delivered", "cancelled", "filtered", "pending")


@pytest.mark.parametrize(
    ("ends", "title"),
    [
        ((5, 5, 0, 0, 0), "Every delivery was made"),
        ((5, 0, 5, 0, 0), "0 % of the deliveries were made; none was given up"),
        ((5, 4, 0, 1, 0), "80 % of the deliveries were made; none was given up"),
    ],
)
def test_a_report_says_that_every_delivery_was_made_only_if_each_was(ends: tuple[int, ...], title: str) -> None:
    told = {"accepted": 5, "subscriptions": [], **dict(zip(ENDS, ends, strict=True))}
    assert _title(told, 0)[0] == title


@pytest.mark.parametrize(
    ("about", "told"),
    [
        ({"topic": None}, "1 more are in the table audit_violations."),
        ({"topic": "fruit"}, "1 more are not listed."),
        ({"topic": None, "subject": {}}, "1 more are not listed."),
    ],
)
def test_only_a_certificate_of_all_topics_refers_to_the_table_of_violations(about: dict[str, Any], told: str) -> None:
    assert told in _violations({"listed": [], "violations": 1, **about})


def test_only_a_report_on_all_topics_refers_to_the_table_of_hours() -> None:
    numbers = ("matched", "delivered", "discarded", "expired", "cancelled", "filtered", "pending", "retries")
    latency = ("attempt_ms_p50", "end_to_end_ms_p50", "end_to_end_ms_p95", "end_to_end_ms_p99")
    row = {
        "topic": "fruit",
        "subscription": "s",
        **dict.fromkeys(numbers, 1),
        **dict.fromkeys(latency),
        "blocked_ms": 0,
    }
    rows = [{**row, "ordinal": number} for number in range(SUBSCRIPTIONS_SHOWN + 2)]
    assert "2 more are in the table delivery_report_hours." in _subscriptions(rows, None)
    assert "2 more are not listed." in _subscriptions(rows, "fruit")


def test_every_column_has_a_heading_and_a_wide_table_scrolls_with_the_keyboard() -> None:
    numbers = ("matched", "delivered", "discarded", "expired", "cancelled", "filtered", "pending", "retries")
    times = ("attempt_ms_p50", "end_to_end_ms_p50", "end_to_end_ms_p95", "end_to_end_ms_p99")
    row = {"topic": "fruit", "subscription": "s", "ordinal": 1, "blocked_ms": 0, **dict.fromkeys((*numbers, *times), 1)}
    for table in (_subscriptions([row], None), _promises({"order": 0}, {"order": "the order is kept"})):
        assert "></th>" not in table
        assert '<div class="wide" tabindex="0"' in table

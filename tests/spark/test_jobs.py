"""Every job from end to end on the local S3, over s3a:// as Glue has s3://, and the arguments that Glue passes."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import SparkSession

from glue_jobs import audit, backtest, compact, delivery_report, replay
from glue_jobs.io import arguments
from glue_jobs.io.storage import Archive
from glue_jobs.measuring.filter_sets import current_filter
from tests.http_server import Handler, serving
from tests.spark.conftest import Bucket, S3Bucket, Told
from tests.spark.story import APPLE, DAY, NOON, PEAR, Record, end, filter_version, lane, message, subscribed, wait

JOBS = {"compact": compact, "audit": audit, "delivery_report": delivery_report, "backtest": backtest, "replay": replay}
WINDOW = ("--from", DAY, "--to", "2026-11-21")
AT = "2026-11-20T12:00:00.000Z"


@dataclass
class Api:
    """Stands for the replay route: keeps what it is sent, and is busy or gone when told to."""

    url: str = ""
    requests: list[tuple[str, str, list[dict[str, Any]]]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api()

    class Serving(Handler):
        def serve(self) -> None:
            body = json.loads(self.body())
            status = made.statuses.pop(0) if made.statuses else 200
            if status == 200:
                made.requests.append((self.path, self.headers["Idempotency-Key"], body["messages"]))
            accepted = {"message_id": "1", "matched": 1, "accepted_at": AT, "expires_at": AT}
            results = [accepted for _ in body["messages"]]
            self.answer(status, json.dumps({"results": results}).encode())

    with serving(Serving) as address:
        made.url = f"{address}/v1"
        yield made


def story() -> dict[str, list[Record]]:
    """Five messages for an eager subscription, which got one at the second attempt and lost one, and a replay."""
    bodies = ["first", "", "drei €", "four"]
    some = [message(n, at=NOON + n * 1000, body=text, body_bytes=len(text)) for n, text in enumerate(bodies)]
    lost = message(9, at=NOON + 9000, tags=["pear"], properties={"price": "3"})
    again = message(10, at=NOON + 500_000, matched=(), replay_of=lost["message_id"])
    done = [
        end(some[0], round_at=NOON + 10),
        end(some[1], round_at=NOON + 1010),
        end(some[3], attempts=1, after_ms=62_200),
    ]
    held = [wait(some[2], attempts=1), wait(some[3], position=1), end(some[2], attempts=2, after_ms=62_000)]
    failed = [wait(lost, attempts=n, position=2, after_ms=60_000 * n + 60_000) for n in (1, 2, 3)]
    end_of_it = end(lost, state="discarded", attempts=4, after_ms=300_000, outcome="http 500")
    lanes = [lane("fruit", NOON + 2000), lane("fruit", NOON + 310_000, "active", "blocked")]
    return {
        "messages": [*some, lost, again],
        "deliveries": [*done, *held, wait(lost, position=2), *failed, end_of_it],
        "subscriptions": subscribed("fruit"),
        "lanes": lanes,
    }


@pytest.fixture(scope="module")
def filled(spark: SparkSession, s3_bucket: S3Bucket) -> S3Bucket:
    for kind, records in story().items():
        s3_bucket.put(kind, DAY, records)
    assert compact.main(["--archive", s3_bucket.uri, *WINDOW]) == 0
    return s3_bucket


def test_the_report_tells_what_went_wrong_in_one_page_without_the_net_and_lists_each_day(
    filled: S3Bucket, told: Told
) -> None:
    assert delivery_report.main(["--archive", filled.uri, *WINDOW, "--by", "day"]) == 0
    summary = told()
    names = ("accepted", "matched", "delivered", "discarded", "pending", "retries")
    assert [summary[name] for name in names] == [6, 5, 4, 1, 0, 4]
    assert summary["blocked_ms"] == 308_000
    page = filled.text(summary["html"].removeprefix("s3://archive/"))
    assert "1 delivery of 1 subscription was given up; 80 % were delivered" in page
    assert "http 500 (5)" in page
    assert not re.search(r"(src|href)\s*=\s*.https?://(?!www\.w3\.org)", page)
    assert page.count("<svg") == 4
    [row] = filled_rows(filled, "reports/report/hours")
    assert (row.subscription, row.end_to_end_ms_p50, row.top_failures[0]["count"]) == ("s0", 31_025.0, 5)
    [of_day] = summary["rows"]
    begins_at = NOON - 12 * 3_600_000
    assert [of_day[name] for name in ("begins_at", "matched", "delivered", "retries")] == [begins_at, 5, 4, 4]
    [written] = filled_rows(filled, summary["parquet"].removeprefix(f"{filled.uri}/"))
    assert written.asDict() == of_day


def test_a_day_that_is_not_over_ends_now_and_a_removed_subscription_is_closed_to_nobody(
    spark: SparkSession, bucket: Bucket, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, hour_ms = NOON + 600_000, 3_600_000
    monkeypatch.setattr(arguments, "now_ms", lambda: now)
    one = message(1, at=NOON - 1000, matched=(0, 1, 2))
    lanes = [
        lane("fruit", NOON, ordinal=1),
        lane("fruit", NOON - hour_ms, ordinal=2),
        lane("fruit", NOON - hour_ms + 60_000, "removed", "blocked", 2, ordinal=2),
        lane("fruit", NOON - 2 * hour_ms, "removed", ordinal=3),
    ]
    bucket.put("messages", DAY, [one])
    bucket.put("deliveries", DAY, [end(one), wait(one, 1, attempts=1), end(one, 2, "cancelled")])
    bucket.put("subscriptions", DAY, [each for ordinal in range(4) for each in subscribed("fruit", ordinal)])
    bucket.put("lanes", DAY, lanes)
    assert compact.main(["--archive", bucket.uri, *WINDOW]) == 0

    only = ("--topic", "fruit", "--subscription", "s1", "--by", "hour")
    assert delivery_report.main(["--archive", bucket.uri, *WINDOW, *only]) == 0

    summary = told()
    listed = [(row["subscription"], row["begins_at"], row["pending"]) for row in summary["rows"]]
    assert listed == [("s1", NOON - hour_ms, 1)]
    assert (summary["until"], summary["blocked_ms"]) == ("2026-11-20T12:10:00.000Z", 660_000)
    [key] = [key for key in bucket.keys("reports/report/") if key.endswith("report.json")]
    report = json.loads(bucket.text(key))
    closed = {row["subscription"]: row["blocked_ms"] for row in report["subscriptions"] if row["blocked_ms"]}
    assert closed == {"s1": 600_000, "s2": 60_000}
    hours = {(row["hour"] - NOON) // hour_ms: row["blocked_ms"] for row in report["hours"] if row["blocked_ms"]}
    assert hours == {0: 600_000, -1: 60_000}
    [key] = [key for key in bucket.keys("reports/report/") if key.endswith("index.html")]
    page = bucket.text(key)
    wrong = page[page.index("Failures") : page.index("Hour by hour")]
    assert [name for name in ("s0", "s1", "s2", "s3") if f"fruit / {name}" in wrong] == ["s1", "s2"]
    assert "until 2026\u201111\u201120\u00a012:10:00.000 UTC" in page


def filled_rows(bucket: Bucket, table: str) -> list[Any]:
    session = SparkSession.getActiveSession()
    assert session is not None
    return session.read.parquet(f"{bucket.uri}/{table}").collect()


def test_the_audit_certifies_what_kept_its_promises(filled: S3Bucket, told: Told) -> None:
    assert audit.main(["--archive", filled.uri, *WINDOW, "--topic", "fruit", "--as-of", "2026-11-22T00:00:00Z"]) == 0
    summary = told()
    assert (summary["ok"], summary["violations"]) == (True, 0)
    assert "Every promise was kept" in filled.text(summary["html"].removeprefix("s3://archive/"))


def test_a_backtest_compares_with_the_filter_of_now_and_explains(filled: S3Bucket, told: Told) -> None:
    given = ["--archive", filled.uri, *WINDOW, "--topic", "fruit", "--filter", APPLE, "--subscription", "s0"]
    assert backtest.main(given) == 0
    summary = told()
    assert (summary["matched"], summary["newly_matched"], summary["newly_unmatched"]) == (4, 0, 1)
    result = json.loads(filled.text(summary["json"].removeprefix("s3://archive/")))
    [sample] = result["samples"]
    assert (sample["way"], sample["candidate"]["value"], sample["current"]["value"]) == ("newly_unmatched", False, True)


def test_the_filter_of_now_is_that_of_the_subscription_that_has_the_name_now(
    spark: SparkSession, bucket: Bucket
) -> None:
    before = [filter_version("fruit", 3, PEAR, version=version) for version in (1, 2, 3)]
    made_again = filter_version("fruit", 4, APPLE, since=9)
    bucket.put("subscriptions", DAY, [{**each, "subscription": "billing"} for each in (*before, made_again)])
    bucket.put("subscriptions", DAY, [filter_version("fruit", 5, '{"kind": "later"}')])
    assert compact.main(["--archive", bucket.uri, *WINDOW]) == 0

    found = current_filter(Archive.at(spark, bucket.uri), "fruit", "billing", NOON)

    assert found == json.loads(APPLE)
    with pytest.raises(LookupError, match="this release cannot read the filter of fruit/s5"):
        current_filter(Archive.at(spark, bucket.uri), "fruit", "s5", NOON)


def test_a_backtest_compares_with_no_filter_function(spark: SparkSession, bucket: Bucket, told: Told) -> None:
    bucket.put("messages", DAY, [message(1)])
    bucket.put("subscriptions", DAY, subscribed("fruit", filter='{"kind": "function", "function": "judge"}'))
    assert compact.main(["--archive", bucket.uri, *WINDOW]) == 0
    told()
    asked = ["--archive", bucket.uri, *WINDOW, "--topic", "fruit", "--filter", PEAR, "--subscription", "s0"]
    assert backtest.main(asked) == 1
    assert told()["detail"] == "fruit/s0 has a filter function: its verdicts are unknown"


def test_many_candidates_come_from_a_file(filled: S3Bucket, told: Told, tmp_path: Any) -> None:
    lines = [{"name": f"f{n}", "filter": {"kind": "sql92", "expression": f"price > {n}"}} for n in range(5)]
    (tmp_path / "candidates").write_text("\n".join(map(json.dumps, [*lines, {"name": "all", "filter": None}])))
    given = ["--archive", filled.uri, *WINDOW, "--topic", "fruit", "--filters", str(tmp_path / "candidates")]
    assert backtest.main(given) == 0
    summary = told()
    assert (summary["candidates"], summary["matched"]) == (6, 3 + 5)


def test_a_replay_shows_its_volume_first_then_sends_in_order_and_goes_on_where_it_stopped(
    filled: S3Bucket, told: Told, api: Api
) -> None:
    before = filled.keys("raw/") + filled.keys("curated/")
    given = ["--archive", filled.uri, *WINDOW, "--topic", "fruit", "--subscription", "s0", "--rate", "1000"]
    assert replay.main(given) == 0
    summary = told()
    assert (summary["messages"], summary["without_body"], api.requests) == (4, 1, [])
    assert replay.main([*given, "--only", '{"kind": "sql92", "expression": "price > 2"}']) == 0
    narrowed = told()
    assert narrowed["filtered_out"] > summary["filtered_out"]
    assert narrowed["messages"] + narrowed["filtered_out"] + narrowed["without_body"] == 5
    sending = [*given, "--preview", "false", "--api", api.url, "--chunk", "3"]
    api.statuses = [503, 200, 400]
    assert replay.main(sending) == 1
    assert told()["detail"].startswith("400 ")
    assert replay.main(sending) == 0
    summary = told()
    assert (summary["sent"], summary["matched"], summary["sent_before"]) == (4, 4, 3)
    paths, keys, sent = zip(*api.requests, strict=True)
    assert set(paths) == {"/v1/topics/fruit/subscriptions/s0/replay"}
    assert len(set(keys)) == 2
    originals = [one["message_id"] for one in story()["messages"][:4]]
    assert [each["replay_of"] for group in sent for each in group] == originals
    assert [each["body"] for group in sent for each in group] == ["first", "", "drei €", "four"]
    assert replay.main(sending) == 0
    assert (told()["sent_before"], len(api.requests)) == (4, 2)
    assert filled.keys("raw/") + filled.keys("curated/") == before


@pytest.mark.nightly
def test_an_empty_day_has_reports_too_and_an_audit_that_judged_nothing_is_no_success(
    spark: SparkSession, bucket: Bucket, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = ("--archive", bucket.uri, "--date", "2026-11-18")
    assert delivery_report.main(day) == 0
    assert told()["accepted"] == 0
    assert backtest.main([*day, "--topic", "fruit", "--filter", "null"]) == 0
    assert told()["messages"] == 0
    assert audit.main(day) == audit.NOTHING_JUDGED == 3
    summary = told()
    assert (summary["ok"], summary["judged"], summary["violations"]) == (False, 0, 0)
    page = bucket.text(summary["html"].removeprefix(f"file://{bucket.uri}/"))
    assert "<h1" in page
    assert page.index("Nothing was proved") < page.index("violations")
    # The same certificate is a success of a nightly run.
    certificate = json.loads(bucket.text(summary["json"].removeprefix(f"file://{bucket.uri}/")))
    monkeypatch.setattr(audit, "certify", lambda *_: certificate)
    assert audit.main([*day, "--nothing-judged", "pass"]) == 0


def test_a_topic_named_like_a_day_has_backtests_of_its_own(spark: SparkSession, bucket: Bucket, told: Told) -> None:
    pages = set[str]()
    for topic, days in (("fruit", ("--from", DAY, "--to", "2026-11-22")), (f"fruit_{DAY}", ("--date", "2026-11-21"))):
        assert backtest.main(["--archive", bucket.uri, "--topic", topic, *days, "--filter", APPLE]) == 0
        pages.add(told()["html"])
    assert len(pages) == 2

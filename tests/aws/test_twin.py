"""The twin for speed and cost: what it counts, and that what should limit it does."""

from __future__ import annotations

import re
import statistics
from dataclasses import replace
from pathlib import Path

import pytest
from tagcast.model import Ordering

from tests.aws import limits
from tests.aws.lambdas import Ended
from tests.benchmarks.case_bills import at_pace, refused
from tests.benchmarks.twin import THRIFT
from tests.benchmarks.twinning.account import Account, Cell
from tests.benchmarks.twinning.bill import usd_of
from tests.benchmarks.twinning.bounds import first_bound, limit_of, taken
from tests.benchmarks.twinning.lockstep import BATCH, BUDGETS, lockstep
from tests.benchmarks.twinning.orders import BODY_BYTES, deflated_bytes
from tests.benchmarks.twinning.play import Course, Load, Publishing, Sent, messages_up_to
from tests.benchmarks.twinning.sdk import FixedSdk
from tests.benchmarks.twinning.wide import HEADING, first_publish, one_message

DOCUMENT = (Path(__file__).parents[2] / "docs" / "speed-and-cost.md").read_text()
LIMITS = (Path(__file__).parents[2] / "docs" / "limits.md").read_text()
SINGLY = Cell(3, Ordering.TOPIC, 30, parameters=(("TopicKnownSeconds", "0"),))


def account_of(cell: Cell, shards: int = 1) -> Account:
    """An account in which handlers compute nothing and each call costs the SDK a millisecond."""
    return Account(cell, lambda: 0, FixedSdk(), shards)


def played(account: Account, load: Load, messages: int, first: int = 0) -> Course:
    with account.meter.reading_logs():
        return Publishing(account, load, messages_up_to(messages), first).play()


@pytest.mark.parametrize(("at_once", "requests", "reads"), [(1, 10, 10), (BATCH, 1, 2)])
def test_ten_messages_ask_aws_for_what_their_budget_allows(at_once: int, requests: int, reads: int) -> None:
    account = account_of(replace(SINGLY, at_once=at_once))
    with account.meter.reading_logs():
        usage = lockstep(account)
    assert {key: count for key, count in usage.calls.items() if key[0] != "archive"} == {
        ("publish", "GetItem"): reads,
        ("publish", "PutItem"): 10,
        ("publish", "SendMessageBatch"): requests,
        ("relay", "GetItem"): 1,
        ("relay", "SendMessageBatch"): 1,
        ("poll", "ReceiveMessage"): 1,
        ("poll", "DeleteMessageBatch"): 1,
        ("fan_out", "BatchGetItem"): 1,
        ("fan_out", "GetItem"): 1,
        ("fan_out", "Query"): 1,
        ("fan_out", "BatchExecuteStatement"): 1,
    }
    asked = usage.of("SendMessageBatch", "ReceiveMessage", "DeleteMessageBatch")
    assert asked / BATCH == {1: BUDGETS["queue requests"], BATCH: 0.4}[at_once]
    assert usage.units["write"] / BATCH == BUDGETS["table writes"]
    assert usage.units["read"] / BATCH <= BUDGETS["read units"]


def test_a_topic_is_as_fast_as_its_hot_key_lets_it_be() -> None:
    def per_second(key_reads: float | None) -> tuple[float, str]:
        account = account_of(Cell(1, Ordering.NONE, 5))
        if key_reads is not None:
            account.deployment.tables["RegistryTable"].throughput.key_read_rate = key_reads
        course = played(account, Load(publishers=8), 40)
        refused = account.deployment.tables["RegistryTable"].throughput.refused
        return course.sustained(), ", ".join(refused)

    free, of_nothing = per_second(None)
    hot, of_what = per_second(20.0)
    assert of_nothing == ""
    assert of_what == "reads of TOPIC#orders"
    assert hot < 20 < free


def test_messages_far_apart_are_all_played() -> None:
    assert len(played(account_of(Cell(1, Ordering.NONE, 5)), Load(every_ms=15_000), 3).sent) == 3


def test_what_a_batch_puts_off_is_taken_when_it_is_visible_again() -> None:
    account = account_of(Cell(1, Ordering.NONE, 5))
    queue, pollers = account.deployment.queues["DeliveryQueue"], account.pollers
    pollers.holding = True
    queue.send("unreadable", "g", "d", {})
    account.timeline.play_until(account.timeline.now + 1_000)
    [message] = queue.receive(1)
    queue.change_visibility(message.receipt, 5)
    pollers.holding = False

    pollers._ended([message], 0, Ended(None, {"batchItemFailures": [{"itemIdentifier": message.message_id}]}))
    account.timeline.play_until(account.timeline.now + 10_000)

    assert message.receives == 2


def test_a_message_alone_fills_no_batch_and_pays_for_whole_records_of_the_archive() -> None:
    alone = at_pace(Cell(3, Ordering.NONE, 30), 0.05, 4, lambda: 0, FixedSdk(), warm=8)

    requests = alone.lines["queue requests"] / limits.PRICES_USD["sqs: a million FIFO requests of 64 KiB"]
    assert requests == pytest.approx(4)
    assert alone.lines["archive"] == pytest.approx(10 * limits.PRICES_USD["firehose: a GB"])
    assert 3 * BODY_BYTES / 1_000 < alone.gigabytes < 6


def test_an_endpoint_that_refuses_each_message_costs_six_write_units_an_attempt() -> None:
    attempts, each = refused(20, 1, lambda: 0, FixedSdk())

    assert attempts == 20 * 7, "one in 512 s"
    units = each.lines["table writes"] / limits.PRICES_USD["dynamodb: a million write request units"]
    assert 6 <= units < 6.5


def test_a_process_that_may_know_the_topic_for_a_second_reads_it_once() -> None:
    def reads(known_s: int) -> int:
        cell = Cell(1, Ordering.NONE, 5, parameters=(("TopicKnownSeconds", str(known_s)),))
        course = played(account_of(cell), Load(publishers=1), 5)
        return course.usage.calls["publish", "GetItem"]

    assert (reads(0), reads(1)) == (6, 2), "knowing it at first takes a second look"


def test_the_first_publisher_to_a_small_topic_is_accepted_at_the_first_try() -> None:
    [took_s] = first_publish(Cell(5, Ordering.NONE, 5), lambda: 0, FixedSdk())
    assert 0 < took_s < 2


def course_of(messages: int, lasted_s: float) -> Course:
    """A course in which messages arrived at equal distances."""
    step = round(1_000_000 * lasted_s / messages)
    sent = {number: Sent(0, 0, 1, number * step) for number in range(1, messages + 1)}
    return Course(sent=sent, ended=messages * step)


def test_what_each_further_message_takes_says_which_quota_is_used_up_first() -> None:
    slower = (course_of(100, 1.0), {"reads": 2 / 1000, "writes": 1 / 1000})
    faster = (course_of(200, 1.0), {"reads": 1.1 / 1000, "writes": 1 / 1000})
    bound = first_bound(slower, faster)
    assert bound is not None
    assert (round(bound.per_second), bound.quota) == (1_000, "writes")
    assert first_bound(faster, slower) is None, "what was no faster tells nothing"
    used_up = (course_of(200, 1.0), {"reads": 5.1 / 1000, "writes": 5.3 / 1000})
    bound = first_bound(slower, used_up)
    assert bound is not None
    assert (round(bound.per_second), bound.quota) == (200, "writes"), "of two it is the one that is more than used up"


def test_of_looks_that_count_for_a_second_a_short_play_is_charged_its_part() -> None:
    account = account_of(Cell(1, Ordering.NONE, 5))
    warm = played(account, Load(publishers=2), 8)
    account.forget()
    account.timeline.play_until(account.timeline.now + 1_000)
    course = played(account, Load(publishers=2), 8, first=len(warm.sent))
    whole_s = account.deployment.tables["RegistryTable"].throughput.taken_s()["reads of TOPIC#orders"]
    looks = course.usage.calls["publish", "GetItem"]
    part = 8 / course.sustained()
    assert looks > 0 < part < 1
    expected_s = whole_s - looks * (1 - part) / limits.KEY_READ_UNITS
    assert taken(account, course)["reads of TOPIC#orders"] == pytest.approx(expected_s / 8)


def test_what_waited_and_ended_at_once_is_no_pace_that_lasts() -> None:
    published_each_ms = {number: Sent(1_000 * number, 0, 1, 900_000 + number) for number in range(1, 101)}
    course = Course(sent=published_each_ms, began=0, ended=900_100)
    assert course.sustained() == pytest.approx(1_000)


def test_a_small_region_lets_through_what_its_quotas_allow() -> None:
    account = account_of(Cell(1, Ordering.NONE, 5, place=limits.SMALL_REGION))
    warm = played(account, Load(publishers=20), 40)
    account.deployment.box.quotas.grant("apigateway: requests", 200)
    account.forget()
    course = played(account, Load(publishers=20), 300, first=len(warm.sent) + warm.refused)
    took = taken(account, course)
    assert limit_of(course, took) == "apigateway: requests"
    assert 150 < course.sustained() < 220
    assert account.deployment.box.quotas.refused["apigateway: requests", ""] > 0


def test_a_quota_limits_a_play_that_takes_nearly_all_of_it() -> None:
    assert limit_of(course_of(100, 1.0), {"reads": 0.009, "writes": 0.001}) == "reads"
    assert limit_of(course_of(100, 1.0), {"reads": 0.008, "writes": 0.001}) is None


def test_a_process_with_less_memory_computes_for_longer() -> None:
    call_ms = 100.0

    def billed_ms(memory_mb: int) -> tuple[float, int]:
        account = Account(SINGLY, lambda: 0, FixedSdk(call_ms), 1)
        account.deployment.functions.by_id["PublishFunction"].memory_mb = memory_mb
        usage = played(account, Load(publishers=1), 5).usage
        calls = sum(count for (kind, _), count in usage.calls.items() if kind == "publish")
        assert usage.cpu_ms["publish"] == calls * call_ms
        return usage.billed_mb_ms["publish"] / memory_mb, calls

    (whole_ms, calls), (third_ms, _) = billed_ms(limits.LAMBDA_FULL_CPU_MB), billed_ms(limits.LAMBDA_FULL_CPU_MB // 3)
    assert third_ms - whole_ms == pytest.approx(2 * calls * call_ms, rel=0.05)


def test_one_message_to_many_says_when_the_last_of_them_has_it() -> None:
    wide = one_message(Cell(20, Ordering.NONE, 30), lambda: 0, FixedSdk())
    assert wide.course.pushes == 20
    assert wide.last_push_s * 1_000_000 == max(wide.course.latencies)
    assert wide.writes_a_thousand == 1000 * 2 / 20
    assert str(wide).count("|") == HEADING.count("|")


def test_a_bill_has_a_line_for_whatever_was_used() -> None:
    account = account_of(SINGLY)
    usage = played(account, Load(publishers=2), 6).usage
    bill = usd_of(usage, 6)
    assert {line for line, usd in bill.items() if usd <= 0} == {"workflow", "traces"}
    assert bill["table writes"] == pytest.approx(2 * limits.PRICES_USD["dynamodb: a million write request units"])
    assert bill["HTTP API"] == limits.PRICES_USD["api gateway: a million requests of an HTTP API"]


def test_what_an_owner_chooses_is_played_as_the_template_says() -> None:
    thrifty = account_of(replace(SINGLY, parameters=THRIFT))
    course = played(thrifty, Load(publishers=2), 6)
    usage, lavish = course.usage, replace(SINGLY, parameters=(*SINGLY.parameters, ("SystemLogLevel", "INFO")))
    plain = played(account_of(lavish), Load(publishers=2), 6).usage
    assert (len(course.sent), course.pushes, course.refused) == (6, 18, 0)
    assert (usage.api_requests, usage.platform_lines) == (0, 0)
    assert (plain.api_requests, plain.platform_lines) == (6, sum(plain.invocations.values()))
    assert thrifty.deployment.functions.by_id["FanOutFunction"].memory_mb == limits.LAMBDA_FULL_CPU_MB // 2
    assert usd_of(usage, 6)["HTTP API"] == 0
    cheaper = {line for line, usd in usd_of(usage, 6).items() if usd < usd_of(plain, 6)[line]}
    assert cheaper >= {"HTTP API", "Lambda: fan_out", "logs"}


def test_lambda_tells_of_an_invocation_that_failed_also_where_it_tells_of_no_other() -> None:
    account = account_of(replace(SINGLY, parameters=THRIFT))
    functions = account.deployment.functions
    ended: list[Ended] = []
    functions.start(functions.by_id["FanOutFunction"], {}, ended.append)
    account.timeline.play_until(account.timeline.now + 2_000)
    assert [each.error for each in ended] == ["Unhandled"]
    assert account.meter.usage.platform_lines == 1


def test_the_document_tells_what_a_message_puts_into_the_archives_fullest_stream() -> None:
    account = account_of(Cell(3, Ordering.NONE, 30, 16, batched=True))
    warm = played(account, Load(publishers=20), 160)
    account.forget()
    course = played(account, Load(publishers=20), 320, first=len(warm.sent))
    stream = limits.QUOTAS["firehose: bytes of a stream"]
    each = account.deployment.box.quotas.taken_s()["firehose: bytes of a stream"] * stream.largest / len(course.sent)
    told = re.search(r"(\d+) bytes a message\s+with 3\s+subscribers.* 1 MiB suffices for ([\d,]+)", LIMITS, re.DOTALL)
    assert told is not None
    bytes_told, least = (float(number.replace(",", "")) for number in told.groups())
    assert 0.7 * bytes_told < each <= 1.2 * bytes_told
    assert stream.least / bytes_told == pytest.approx(least, rel=0.02)


def test_an_order_is_played_that_deflates_as_the_document_says() -> None:
    average = statistics.fmean(deflated_bytes())
    assert f"{BODY_BYTES:,} bytes, which deflate to {average:.0f} on average" in DOCUMENT

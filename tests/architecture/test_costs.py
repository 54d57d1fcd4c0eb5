"""What the documents say of costs is what the template and the counted calls cost."""

from __future__ import annotations

import re
from pathlib import Path

from local.rules.costs import OF_A_MESSAGE, usd_of_a_million_messages
from local.template.translated import read_template
from tests.benchmarks.calls import BUDGETS
from tests.benchmarks.idle_bill import bill, nightly_jobs
from tests.benchmarks.member_bill import bill as member_bill

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
COSTS = (ROOT / "docs/speed-and-cost.md").read_text()
ARCHIVE = (ROOT / "docs/archive.md").read_text()
CONSUMERS = (ROOT / "docs/consumers.md").read_text()
TEMPLATE = read_template(ROOT / "template.yaml")


def test_every_item_of_the_idle_bill_is_told() -> None:
    table = COSTS.partition("| idle | USD a month |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| .* \| (\d+\.\d\d) \|$", table, re.MULTILINE)
    assert rows == [f"{usd:.2f}" for usd in bill(TEMPLATE).values()]


def test_what_a_million_messages_cost_is_told_and_within_what_was_counted() -> None:
    table = COSTS.partition("| item | count per message | USD per million messages |")[2].partition("\n\n")[0]
    said = [
        float(usd)
        for usd in re.findall(r"^\| (?:HTTP API|table|FIFO)[^|]*\|[^|]*\| (\d+\.\d\d) \|$", table, re.MULTILINE)
    ]
    estimated = usd_of_a_million_messages()

    assert said == [float(f"{estimated[name] + 1e-9:.2f}") for name in OF_A_MESSAGE]
    counted = {
        "table writes": "table writes",
        "table read units": "read units",
        "FIFO queue requests": "queue requests",
    }
    assert {name: BUDGETS[counted[name]] for name in counted} == {name: OF_A_MESSAGE[name][0] for name in counted}


def test_what_a_member_costs_is_in_the_page_of_consumers() -> None:
    table = CONSUMERS.partition("| a month of | USD |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| .* \| (\d+\.\d\d) \|$", table, re.MULTILINE)
    assert rows == [f"{usd:.2f}" for usd in member_bill(TEMPLATE).values()]


def test_the_sum_of_an_idle_month_is_told_in_both_places() -> None:
    idle = f"{sum(bill(TEMPLATE).values()):.2f} USD"
    assert f"**nothing happens** costs {idle}" in COSTS
    assert f"| alarms: {sum(1 for _ in TEMPLATE.of_type('AWS::CloudWatch::Alarm'))} |" in COSTS
    assert f"An idle deployment costs {idle} a month" in " ".join(README.split())


def test_the_jobs_that_run_every_night_are_counted() -> None:
    numbers = {3: "three", 4: "four", 5: "five"}
    assert f"{numbers[len(nightly_jobs(TEMPLATE))]} of them run every night" in ARCHIVE

"""What docs/metrics.md says of metrics and alarms is what code and template have."""

import re
from collections.abc import Mapping

from tagcast_aws.runtime.telemetry import METERED_MAX, UNITS

from tests.architecture.test_documents import ROOT, table_rows, text_of
from tests.aws.prices import PRICES_USD
from tests.aws.stack import translated

DOCUMENT = text_of("docs/metrics.md")
OF_A_SUBSCRIPTION = ("docs/metrics.md", "metric", "unit", "sent by", "what")
OF_A_DEPLOYMENT = (*OF_A_SUBSCRIPTION, "alarm")
TEMPLATE = translated()
ALARMS = dict(TEMPLATE.of_type("AWS::CloudWatch::Alarm"))
FUNCTIONS = {path.name for path in (ROOT / "functions").iterdir() if (path / "app.py").exists()}
COUNTED = (
    (r'\.count\(\s*"(\w+)"', "Count"),
    (r'\.record_wait\(\s*"(\w+)"', "Milliseconds"),
    (r'add_metric\(name="(\w+)", unit="Count"', "Count"),
    (r'add_metric\(name="(\w+)", unit="Seconds"', "Seconds"),
    (r'EntryState\.[A-Z]+: "(\w+)"', "Count"),
)
"""How a metric of the deployment is told of in the code."""


def told_by_the_code() -> Mapping[str, str]:
    """The metrics of the deployment with their units."""
    sources = [*(ROOT / "functions").rglob("*.py"), *(ROOT / "layers/tag_matching/python").rglob("*.py")]
    text = "\n".join(source.read_text() for source in sources)
    return {name: unit for pattern, unit in COUNTED for name in re.findall(pattern, text)}


def test_every_metric_of_a_deployment_is_described_with_its_unit_and_its_alarm() -> None:
    described = {name.strip("`"): (unit, alarm.strip("`")) for name, unit, _, _, alarm in table_rows(*OF_A_DEPLOYMENT)}
    watching = {alarm["MetricName"]: name for name, alarm in ALARMS.items() if alarm["Namespace"] == "tagcast"}
    assert described == {name: (unit, watching.get(name, "")) for name, unit in told_by_the_code().items()}


def test_every_metric_of_a_subscription_is_described_with_its_unit() -> None:
    assert {name.strip("`"): unit for name, unit, _, _ in table_rows(*OF_A_SUBSCRIPTION)} == UNITS


def test_who_tells_of_a_metric_is_a_function() -> None:
    for table in (OF_A_DEPLOYMENT, OF_A_SUBSCRIPTION):
        for row in table_rows(*table):
            assert set(row[2].split(", ")) <= FUNCTIONS | {"all"}, row


def test_every_alarm_is_described_with_the_metric_that_it_looks_at() -> None:
    told = [row[:2] for row in table_rows("docs/metrics.md", "alarm", "metric", "starts")]
    described = {name: metric.strip("`") for names, metric in told for name in re.findall(r"`(\w+)`", names)}
    assert described == {name: alarm["MetricName"] for name, alarm in ALARMS.items()}


def test_every_alarm_says_where_to_begin() -> None:
    """Who is notified reads the description first."""
    begins = re.compile(r"`(aws|tagcast) [a-z-]+[^`]*`|docs/archive\.md")
    assert [name for name, alarm in ALARMS.items() if not begins.search(alarm["AlarmDescription"])] == []
    assert all(len(alarm["AlarmDescription"]) <= 1_024 for alarm in ALARMS.values()), "CloudWatch refuses more"


def test_the_commands_of_alarms_name_outputs_and_logs_that_exist() -> None:
    told = {name: alarm["AlarmDescription"] for name, alarm in ALARMS.items()}
    outputs = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper() for name in TEMPLATE.outputs}
    assert set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", " ".join(told.values()))) <= outputs
    groups = {each["LogGroupName"]["Fn::Sub"] for _, each in TEMPLATE.of_type("AWS::Logs::LogGroup")}
    for name, text in told.items():
        tailed = re.findall(r"/tagcast/STACK/([a-z_]+)", text)
        assert {f"/tagcast/${{AWS::StackName}}/{log}" for log in tailed} <= groups
        if name.endswith("Errors"):
            assert [log.replace("_", "") for log in tailed] == [name.removesuffix("Errors").lower()]


def test_the_number_of_metrics_by_subscription_and_their_price_are_as_stated() -> None:
    topics = 1 + int(re.search(r"\{0,(\d+)\}\)\?\$$", TEMPLATE.parameters["MetricTopics"]["AllowedPattern"])[1])  # type: ignore[index]
    names = METERED_MAX + 1
    assert f"{topics} × {names} × {len(UNITS)} = {topics * names * len(UNITS):,}" in DOCUMENT
    assert f"{PRICES_USD['cloudwatch: a metric and month']:.2f} USD" in DOCUMENT

"""Generates parts of documents from the code. `python -m tests.documents` writes them, and a test compares them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tagcast_aws.api.subscriptions.headers import REFUSED_BY_MEANING
from tagcast_aws.cmq.errors import CmqFault

from local.template.translated import read_template

ROOT = Path(__file__).resolve().parents[1]


def documents() -> dict[str, str]:
    """Return the whole text of each document that has generated parts, by path. The parts are generated again."""
    columns = {f"{name} columns": rows for name, rows in _columns()}
    made = {
        "docs/archive.md": {**columns, "questions": _questions(), "violations": _violations()},
        "docs/deploy.md": {"parameters": _parameters()},
        "docs/from-cmq.md": {"pairs": _pairs()},
        "docs/http-api.md": {"refused headers": _refused_headers()},
        "docs/metrics.md": {"alarms": _alarms()},
    }
    return {path: _with_parts((ROOT / path).read_text(), parts) for path, parts in made.items()}


def _table(head: str, rows: Iterable[str]) -> str:
    return "\n".join([f"| {head} |", re.sub(r"[^|]+", "---", f"|{head}|"), *rows])


def _columns() -> Iterator[tuple[str, str]]:
    """Yield the name of each table of the archive, and its columns in the template as a Markdown table."""
    for _, table in read_template(ROOT / "template.yaml").of_type("AWS::Glue::Table"):
        named = table["TableInput"]
        rows = (
            f"| `{each['Name']}` | {each['Type']} | {each['Comment']} |"
            for each in named["StorageDescriptor"]["Columns"]
        )
        yield named["Name"], _table("column | type | meaning", rows)


def _questions() -> str:
    return _table("question | query | parameters", map(_question, sorted((ROOT / "events/athena").glob("*.sql"))))


def _question(path: Path) -> str:
    asked, parameters = (line.removeprefix("-- ") for line in path.read_text().splitlines()[:2])
    told = parameters.partition(": ")[2].removesuffix(".")
    return f"| {asked} | [`{path.stem}`](../events/athena/{path.name}) | {told} |"


def _violations() -> str:
    """Return the kinds of violations. The job's module is parsed, not imported, because it imports Spark."""
    for node in ast.parse((ROOT / "glue_jobs/audit.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "KINDS":
            kinds = ast.literal_eval(node.value)
            return _table("kind of violation | broken promise", (f"| `{kind}` | {kinds[kind]} |" for kind in kinds))
    raise LookupError("KINDS")


def _pairs() -> str:
    by_code: dict[int, list[int]] = {}
    for code, module in sorted(fault.pair for fault in CmqFault):
        by_code.setdefault(code, []).append(module)
    rows = (f"| {code} | {' '.join(map(str, modules))} |" for code, modules in by_code.items())
    return _table("code | module codes", rows)


def _refused_headers() -> str:
    rows = (
        f"| {' '.join(f'`{name}…`' for name in names)} | {meaning} |" for meaning, names in REFUSED_BY_MEANING.items()
    )
    return _table("refused | meaning", rows)


def _alarms() -> str:
    """Return the alarms, grouped by metric. Alarms that differ only in their function share a row."""
    named: dict[tuple[str, str], list[str]] = {}
    for name, alarm in read_template(ROOT / "template.yaml").of_type("AWS::CloudWatch::Alarm"):
        starts = re.sub(r"(An invocation) of \w+(.* /tagcast/STACK/)\w+", r"\1\2FUNCTION", alarm["AlarmDescription"])
        starts = re.sub(r"(?<=An invocation) of \w+", "", starts)
        starts = re.sub(r"docs/([\w-]+)\.md(?:, ([\w ]+))?", _link, starts)
        named.setdefault((alarm["MetricName"], starts), []).append(f"`{name}`")
    rows = (f"| {', '.join(names)} | `{metric}` | {starts} |" for (metric, starts), names in named.items())
    return _table("alarm | metric | starts", rows)


def _parameters() -> str:
    rows = (f"| `{name}` | {default} | {text} |" for name, default, text in _described())
    return _table("parameter | default | meaning", rows)


def _described() -> Iterator[tuple[str, str, str]]:
    for name, parameter in read_template(ROOT / "template.yaml").parameters.items():
        text = " ".join(parameter["Description"].split())
        default = str(parameter["Default"])
        yield name, f"`{default}`" if default else "none", re.sub(r"docs/([\w-]+)\.md(?:, ([\w ]+))?", _link, text)


def _link(named: re.Match[str]) -> str:
    page, heading = named.groups()
    anchor = "#" + heading.lower().replace(" ", "-") if heading else ""
    return f"[{heading or page}]({page}.md{anchor})"


def _with_parts(text: str, parts: Mapping[str, str]) -> str:
    for name, part in parts.items():
        marks = re.compile(rf"(<!-- {name}: .*? -->\n).*?(<!-- end -->)", re.DOTALL)
        text, found = marks.subn(lambda marked, part=part: f"{marked[1]}{part}\n{marked[2]}", text)  # type: ignore[misc]
        assert found == 1, name
    return text


if __name__ == "__main__":
    for path, text in documents().items():
        (ROOT / path).write_text(text)

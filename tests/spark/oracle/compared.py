"""An archive of histories, read by the jobs and by the oracle: in what they differ."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from glue_jobs import audit, compact, delivery_report, erase
from glue_jobs.io import arguments
from tests.spark.conftest import Bucket, Told
from tests.spark.oracle import report as oracle_report
from tests.spark.oracle.audit import Audit
from tests.spark.oracle.histories import BEGIN, batched, has_right_clocks, told_of
from tests.spark.oracle.planted import is_whole, planted
from tests.spark.oracle.records import (
    COLUMNS,
    CONTENTS,
    Archive,
    Fields,
    Key,
    agrees,
    archive_of,
    curated_records,
    raw_records,
    table,
    told_once,
)
from tests.spark.oracle.report import HOUR_MS, Window

FIRST = datetime.fromtimestamp(BEGIN / 1000, UTC).date()
DAYS = 4
"""Lines arrive on the first of them, on the second, and (after the erasure) on the last."""
LATER = arguments.instant_of(FIRST + timedelta(20))
ERASED_SHARE = 0.04


@dataclass(frozen=True)
class Case:
    """An archive of some histories, the days of it that are looked at, and up to when."""

    number: int
    seeds: Sequence[int]

    @property
    def window(self) -> tuple[date, date]:
        """All days of messages, or, of every third archive, all but the first."""
        return FIRST + timedelta(self.number % 3 == 2), FIRST + timedelta(DAYS - 1)

    @property
    def as_of(self) -> int:
        """Long after the last one, or, of every third archive, in the middle of the second day."""
        return BEGIN + 20 * HOUR_MS if self.number % 3 == 1 else LATER

    def arguments(self, folder: Path) -> list[str]:
        return ["--archive", str(folder), "--from", self.window[0].isoformat(), "--to", self.window[1].isoformat()]

    def day_of(self, message_id: str) -> str:
        """Return the day of the window under which the violations of a message are filed."""
        first, end = self.window
        day = datetime.fromtimestamp((int(message_id) >> 22) / 1000, UTC).date()
        return str(min(max(day, first), end - timedelta(1)))

    @property
    def judged(self) -> Window:
        return Window(*map(arguments.instant_of, self.window))


@dataclass
class Played:
    """What the jobs made of an archive, and in what they differ from the oracle."""

    erased: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    accused_wholes: list[Any] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    def differ(self, what: str, jobs: Iterable[Any], oracle: Iterable[Any]) -> None:
        one, other = Counter(map(repr, jobs)), Counter(map(repr, oracle))
        self.differences += [f"{what}: only the job has {each}" for each in (one - other).elements()]
        self.differences += [f"{what}: only the oracle has {each}" for each in (other - one).elements()]


def arriving_of(case: Case) -> dict[int, dict[str, list[str]]]:
    """Return the lines of each kind that arrive first, a day late, and after the erasure."""
    arriving: dict[int, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for seed in case.seeds:
        plot = planted(seed, told_of(seed))
        for each in batched(seed, plot.lines):
            arriving[each.batch][each.kind].append(each.line)
        for kind, line in plot.damaged:
            arriving[0][kind].append(line)
    return arriving


def put(bucket: Bucket, day: date, lines: dict[str, list[str]], told: Told) -> None:
    """Let lines arrive on a day and compact them."""
    for kind, several in lines.items():
        half = len(several) // 2
        bucket.put(kind, day.isoformat(), several[:half], "03")
        bucket.put(kind, day.isoformat(), several[half:], "23")
    assert compact.main(["--archive", bucket.uri, "--date", day.isoformat()]) == 0
    told()


def chosen(case: Case, messages: Sequence[Fields]) -> tuple[list[str], set[str]]:
    """Return the ids of some messages, and the record ids of all that go with them: of other topics, and replays."""
    dice = Random(f"erased {case.number}")
    ids = sorted({each["message_id"] for each in messages if dice.random() < ERASED_SHARE})
    named = {(each["topic"], each["message_id"]) for each in messages if each["message_id"] in ids}
    gone = [
        each for each in messages if {(each["topic"], each.get(name)) for name in ("message_id", "replay_of")} & named
    ]
    return ids, {each["record_id"] for each in gone}


def play(case: Case, bucket: Bucket, told: Told, patch: pytest.MonkeyPatch) -> Played:
    """Make an archive of the histories, let the jobs read it, and compare with the oracle."""
    played = Played()
    arriving = arriving_of(case)
    patch.setattr(arguments, "now_ms", lambda: LATER)
    put(bucket, FIRST, arriving[0], told)
    put(bucket, FIRST + timedelta(1), arriving[1], told)
    folder = Path(bucket.uri)
    raw = raw_records(folder)
    before = curated_records(folder)
    records = told_once(raw, before)
    compare_records(played, raw, records, before, set())
    archive = archive_of(records)
    ids, erased = chosen(case, archive.messages)
    asked = ["--archive", bucket.uri, "--message", ",".join(ids), "--preview", "false", "--by", "somebody"]
    assert erase.main(asked) == 0
    assert told()["messages"] == len(erased)
    put(bucket, FIRST + timedelta(DAYS - 1), arriving[2], told)
    compare_records(played, raw, records, curated_records(folder), erased)
    patch.setattr(arguments, "now_ms", lambda: case.as_of)
    compare_report(played, case, archive, folder, told)
    compare_audit(played, case, archive, erased, folder, told)
    played.erased = len(erased)
    return played


def compare_records(
    played: Played, raw: dict[Key, list[Fields]], records: dict[Key, Fields], curated: Any, erased: set[str]
) -> None:
    """Each record is curated once, on its day, as its line has it: without its contents, if it was erased."""
    played.differ("records", ((kind, row["record_id"]) for kind, _, row in curated), records)
    for kind, day, row in curated:
        line = records.get((kind, row["record_id"]), {})
        instant = line.get("accepted_at" if kind in ("messages", "deliveries") else "changed_at", 0)
        if day != str(datetime.fromtimestamp(instant / 1000, UTC).date()):
            played.differences.append(f"{row['record_id']} is curated on {day}")
        if kind == "messages" and row["record_id"] in erased:
            is_gone = not row.keys() & set(CONTENTS) and row.get("erasure") is not None
            envelope = {name for name in COLUMNS[kind] if name in line and name not in CONTENTS}
            if not is_gone or any(row.get(name) != line[name] for name in envelope):
                played.differences.append(f"{row['record_id']} is not erased as it should be")
        elif not agrees(line, row):
            played.differences.append(f"{row['record_id']} is curated as {row}, and its line is {line}")


def rounded(row: dict[str, Any]) -> list[tuple[str, Any]]:
    """Two ways of interpolating differ in the last bit."""
    return sorted((name, round(value, 6) if isinstance(value, float) else value) for name, value in row.items())


def compare_report(played: Played, case: Case, archive: Archive, folder: Path, told: Told) -> None:
    assert delivery_report.main([*case.arguments(folder), "--by", "day"]) == 0
    summary = told()
    rows = table(folder / "reports" / "report" / "hours")
    hours = oracle_report.hours(archive, case.judged, case.as_of)
    wanted = [{**row, "dt": str(datetime.fromtimestamp(row["hour"] / 1000, UTC).date())} for row in hours.values()]
    played.differ("report", map(rounded, rows), map(rounded, map(as_written, wanted)))
    days = oracle_report.days(archive, case.judged)
    told_in_all = [sum(row[name] for row in wanted) for name in delivery_report.NUMBERS]
    played.differ("in all", [[summary[name] for name in delivery_report.NUMBERS]], [told_in_all])
    names = {(row["topic"], row["ordinal"]): row["subscription"] for row in wanted}
    told_days = [
        {"topic": lane[0], "ordinal": lane[1], "subscription": names.get(lane), "begins_at": day, **as_written(row)}
        for (lane, day), row in days.items()
    ]
    by_day = table(Path(summary["parquet"].removeprefix("file://")))
    played.differ("by day", map(rounded, by_day), map(rounded, told_days))


def as_written(row: dict[str, Any]) -> dict[str, Any]:
    """Quantiles are of type double."""
    return {name: float(value) if "_ms_p" in name and value is not None else value for name, value in row.items()}


def compare_audit(played: Played, case: Case, archive: Archive, erased: set[str], folder: Path, told: Told) -> None:
    wanted = Audit(archive, case.judged, case.as_of, erased)
    as_of = datetime.fromtimestamp(case.as_of / 1000, UTC).isoformat()
    code = audit.main([*case.arguments(folder), "--as-of", as_of])
    summary = told()
    certificate = json.loads(Path(summary["json"].removeprefix("file://")).read_text())
    assert code == (1 if wanted.violations else 0)
    names = ("kind", "topic", "message_id", "ordinal", "at", "dt")
    rows = table(folder / "reports" / "audit" / "violations")
    filed = ((*each, case.day_of(each[2])) for each in wanted.violations)
    played.differ("audit", (tuple(row[name] for name in names) for row in rows), filed)
    counts = {name: wanted.counts[name] for name in certificate["counts"]}
    played.differ("counts", certificate["counts"].items(), counts.items())
    by_kind = Counter(each[0] for each in wanted.violations)
    played.differ("by kind", certificate["by_kind"].items(), ((kind, by_kind[kind]) for kind in audit.KINDS))
    played.differ("judged", [certificate["judged"]], [wanted.judged])
    played.kinds, played.counts = by_kind, wanted.counts
    whole = [seed for seed in case.seeds if is_whole(seed) and has_right_clocks(seed)]
    topics = {f"{name}{seed}" for seed in whole for name in ("t", "test1-", "letters-")}
    played.accused_wholes = [each for each in wanted.violations if each[1] in topics]

"""The Spark jobs beside DuckDB on the same files: ``python -m tests.benchmarks.spark_jobs [--rows 2000000]``.

Rows are deliveries; two belong to each message. Seeded. CPU is of the whole process tree (driver, JVM, workers), for
the machine may be busy with something else; wall time is the better of two runs in one session, the second being warm.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

NOON = 1_795_132_800_000
DAY, LIFE_MS = "2026-11-20", 86_400_000
TOPICS, ORDINALS, TAGS = 20, 50, 200
FILES = 8
TICK = os.sysconf("SC_CLK_TCK")


def write(archive: Path, rows: int) -> None:
    """Write curated tables: *rows* ends of deliveries, of which 2 % had waited, and what belongs to them."""
    from tagcast.archive.record import RecordKind

    from glue_jobs.io import schemas

    dice = np.random.default_rng(20261121)
    count = rows // 2
    start = NOON - NOON % LIFE_MS
    at = np.sort(start + dice.integers(0, LIFE_MS, count))
    topics = dice.integers(0, TOPICS, count)
    ids = [f"{(int(ms) << 22) + n % (1 << 21):020d}" for n, ms in enumerate(at)]
    pairs = np.stack([dice.integers(0, ORDINALS // 2, count) * 2, dice.integers(0, ORDINALS // 2, count) * 2 + 1], 1)
    weights = 1 / np.arange(1, TAGS + 1) ** 0.9
    drawn = dice.choice(TAGS, (count, 3), p=weights / weights.sum())
    many = dice.integers(0, 4, count)
    messages = {
        "record_id": ids, "schema_version": [1] * count, "topic": [f"t{n}" for n in topics], "message_id": ids,
        "accepted_at": at, "expires_at": at + LIFE_MS, "tags": [[f"tag{t}" for t in sorted(set(row[:n]))]
        for row, n in zip(drawn.tolist(), many.tolist(), strict=True)], "subscriptions_version": [ORDINALS] * count,
        "matched": pairs.tolist(), "filter_error_count": [0] * count,
    }  # fmt: skip
    took = dice.lognormal(4, 1, rows).astype(np.int64) + 1
    owner = np.repeat(np.arange(count), 2)
    ordinals = pairs.reshape(-1)
    waits = dice.random(rows) < 0.02
    ended = at[owner] + took + np.where(waits, 20_000, 0)
    names = np.array(ids)[owner]
    of_topic = np.array(messages["topic"])[owner]
    deliveries = {
        "record_id": [f"{t}.{i}.{o}.v2" for t, i, o in zip(of_topic, names, ordinals, strict=True)],
        "topic": of_topic, "message_id": names, "ordinal": ordinals.astype(np.int32),
        "state": np.where(dice.random(rows) < 0.998, "delivered", "expired"),
        "attempts": np.where(waits, 2, 1).astype(np.int32), "last_attempt_at": ended, "outcome": ["http 200"] * rows,
        "round_at": np.where(waits, 0, at[owner]), "accepted_at": at[owner], "expires_at": at[owner] + LIFE_MS,
        "changed_at": ended // 1000 * 1000,
    }  # fmt: skip
    tables = {RecordKind.MESSAGES: messages, RecordKind.DELIVERIES: deliveries, RecordKind.SUBSCRIPTIONS: _settings()}
    tables[RecordKind.LANES] = _lanes(start)
    from pyspark.sql.pandas.types import to_arrow_schema

    for kind, columns in tables.items():
        schema = to_arrow_schema(schemas.SCHEMAS[kind])
        length = len(next(iter(columns.values())))
        arrays = [pa.array(columns.get(name, [None] * length), schema.field(name).type) for name in schema.names]
        table = pa.Table.from_arrays(arrays, schema=schema)
        folder = archive / "curated" / kind.value / f"dt={DAY}"
        folder.mkdir(parents=True, exist_ok=True)
        for part in range(FILES):
            piece = table.slice(part * length // FILES, (part + 1) * length // FILES - part * length // FILES)
            pq.write_table(piece, folder / f"{part}.parquet", compression="zstd")


def _settings() -> dict[str, list[Any]]:
    both = [
        (topic, ordinal, part)
        for topic in range(TOPICS)
        for ordinal in range(ORDINALS)
        for part in ("settings", "filter")
    ]
    count = len(both)
    return {
        "record_id": [f"t{t}.{o}.{p}" for t, o, p in both], "part": [p for _, _, p in both],
        "topic": [f"t{t}" for t, _, _ in both], "topic_id": [str(t) for t, _, _ in both],
        "subscription": [f"s{o}" for _, o, _ in both], "ordinal": [o for _, o, _ in both], "version": [1] * count,
        "since": [o + 1 for _, o, _ in both], "strategy": ["EXPONENTIAL_DECAY_RETRY"] * count,
        "max_retries": [176] * count, "interval_s_max": [512] * count, "timeout_s": [15] * count,
        "filter": [json.dumps({"kind": "tags", "tags": [f"tag{o * 4}"]}) for _, o, _ in both],
        "changed_at": [0] * count,
    }  # fmt: skip


def _lanes(start: int) -> dict[str, list[Any]]:
    rows = [(t, o, n) for t in range(TOPICS) for o in range(0, ORDINALS, 10) for n in range(4)]
    closed, opened = "lost_contact", "active"
    return {
        "record_id": [f"{t}.{o}.{n}" for t, o, n in rows], "topic": [f"t{t}" for t, _, _ in rows],
        "topic_id": [str(t) for t, _, _ in rows], "ordinal": [o for _, o, _ in rows],
        "state": [opened if n % 2 else closed for _, _, n in rows],
        "previous_state": [closed if n % 2 else opened for _, _, n in rows],
        "generation": [f"{n // 2}" for _, _, n in rows], "changed_at": [start + n * 900_000 for _, _, n in rows],
    }  # fmt: skip


def candidates(number: int) -> list[tuple[str, dict[str, Any]]]:
    """Return *number* tag filters of one or two tags each."""
    dice = np.random.default_rng(number)
    return [
        (f"f{n}", {"kind": "tags", "tags": [f"tag{t}" for t in dice.choice(TAGS, 1 + n % 2)]}) for n in range(number)
    ]


def cpu_s() -> float:
    """Return the CPU seconds of this process and all that it started."""
    total = 0
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        parents[pid], used[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    for pid in used:
        ancestor = pid
        while ancestor not in (os.getpid(), 0, 1) and ancestor in parents:
            ancestor = parents[ancestor]
        total += used[pid] if ancestor == os.getpid() else 0
    return total / TICK


def measured(run: Callable[[], object]) -> tuple[float, float]:
    """Return wall and CPU seconds of the better of two runs."""
    found = []
    for _ in range(2):
        began, spent = time.perf_counter(), cpu_s()
        run()
        found.append((time.perf_counter() - began, cpu_s() - spent))
    return min(found)


def in_spark(archive: str, cores: int, sizes: list[int], job: str | None) -> dict[str, tuple[float, float]]:
    """Run the jobs in a session of their own with *cores*."""
    from tagcast.archive.record import RecordKind

    from glue_jobs import audit, backtest, delivery_report
    from glue_jobs.auditing.audit_entries import Terms
    from glue_jobs.io.arguments import moment, parse, parser, window
    from glue_jobs.io.session import open_session
    from glue_jobs.io.storage import Archive
    from glue_jobs.measuring import measures

    made = parser("bench", "", 1)
    given = parse(made, ["--archive", archive, "--master", f"local[{cores}]", "--driver-memory", "6g", "--date", DAY])
    days = window(made, given)
    where = Archive.at(open_session(given), archive)
    where.suit("curated", days.days())
    tables = {kind: where.records(kind, days.days()) for kind in RecordKind}

    def report() -> None:
        made = delivery_report.report(
            tables[RecordKind.MESSAGES], tables[RecordKind.DELIVERIES], tables[RecordKind.SUBSCRIPTIONS],
            tables[RecordKind.LANES], days, days.end_at,
        )  # fmt: skip
        delivery_report.written(made).write.mode("overwrite").format("noop").save()
        where.spark.catalog.clearCache()

    def prove() -> None:
        terms = Terms(moment("2026-11-23"), 1000)
        found, _ = audit.violations(audit.read(where, days, None), terms)
        found.groupBy("kind").count().collect()
        where.spark.catalog.clearCache()

    def test(number: int) -> Callable[[], None]:
        def run() -> None:
            messages = tables[RecordKind.MESSAGES].withColumn("hour", measures.hour_of("accepted_at"))
            backtest.count_all(messages, candidates(number))
            where.spark.catalog.clearCache()

        return run

    jobs = {"report": report, "audit": prove} | {f"backtest {number:,}": test(number) for number in sizes}
    return {name: measured(run) for name, run in jobs.items() if job is None or name.startswith(job)}


def in_duckdb(archive: str, cores: int, sizes: list[int]) -> dict[str, tuple[float, float]]:
    """Do the same with DuckDB: the report's table; conservation alone of the audit; counts of the backtest."""
    import duckdb

    def connection() -> Any:
        made = duckdb.connect()
        made.execute(f"set threads = {cores}")
        for kind in ("messages", "deliveries"):
            made.execute(f"create view {kind} as select * from read_parquet('{archive}/curated/{kind}/*/*.parquet')")
        return made

    keys = "topic, ordinal, accepted_at // 3600000 as hour"
    quantiles = ", ".join(f"quantile_disc(last_attempt_at - accepted_at, {q})" for q in (0.5, 0.95, 0.99))
    ends = "count(*) filter (state = 'delivered'), count(*) filter (state = 'expired'), sum(attempts - 1)"
    owed = "select topic, message_id, unnest(matched) as ordinal, expires_at from messages"
    ended = (
        "select topic, message_id, ordinal, count(*) as n, max(last_attempt_at) as last from deliveries group by all"
    )
    both = f"({owed}) o full join ({ended}) e using (topic, message_id, ordinal)"
    prove = f"select count(*) from {both} where n is distinct from 1"

    def test(number: int) -> Callable[[], None]:
        def run() -> None:
            made = connection()
            made.execute("create table wanted (tag varchar, candidate int, tags varchar[])")
            rows = [(tag, n, f["tags"]) for n, (_, f) in enumerate(candidates(number)) for tag in set(f["tags"])]
            made.executemany("insert into wanted values (?, ?, ?)", rows)
            pairs = "select accepted_at // 3600000 as hour, tags, unnest(tags) as tag from messages"
            first = "list_filter(p.tags, lambda t: list_contains(w.tags, t))[1] = p.tag"
            joined = f"({pairs}) p join wanted w using (tag) where {first}"
            made.execute(f"select hour, candidate, count(*) from {joined} group by all")
            made.fetchall()

        return run

    report = f"select {keys}, count(*), {ends}, {quantiles} from deliveries group by all"
    found = {
        "report": measured(lambda: connection().execute(report).fetchall()),
        "audit": measured(lambda: connection().execute(prove).fetchall()),
    }
    return found | {f"backtest {number:,}": measured(test(number)) for number in sizes}


def apart(archive: str, engine: str, cores: int, sizes: list[int], job: str = "") -> dict[str, tuple[float, float]]:
    """Run in a process of its own, so that sessions and caches do not meet."""
    command = [sys.executable, "-m", "tests.benchmarks.spark_jobs", "--only", engine, "--archive", archive]
    command += ["--cores", str(cores), "--sizes", ",".join(map(str, sizes)), "--job", job]
    answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    told: dict[str, tuple[float, float]] = json.loads(answer.splitlines()[-1])
    return told


def tabulate(title: str, rows: list[tuple[str, ...]]) -> None:
    """Print rows below each other."""
    print(f"\n{title}")
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join([row[0].ljust(widths[0]), *cells[1:]]), flush=True)


def compare(folder: Path, rows: int) -> None:
    """Print both engines side by side, then how Spark grows."""
    archive, sizes = str(folder / "main"), [10, 100, 1000]
    write(Path(archive), rows)
    for cores in (2, 1):
        ours, theirs = (apart(archive, engine, cores, sizes) for engine in ("spark", "duckdb"))
        lines: list[tuple[str, ...]] = [
            ("job", "Spark wall s", "CPU s", "DuckDB wall s", "CPU s", "wall ratio", "CPU ratio")
        ]
        for name, (wall, cpu) in ours.items():
            other, spent = theirs[name]
            figures = (f"{wall:.1f}", f"{cpu:.1f}", f"{other:.2f}", f"{spent:.2f}")
            lines.append((name, *figures, f"{wall / other:.1f}", f"{cpu / max(spent, 0.01):.1f}"))
        tabulate(f"{rows:,} deliveries of {rows // 2:,} messages, {cores} core(s)", lines)
    grown: list[tuple[str, ...]] = [("rows", "report CPU s", "audit CPU s", "backtest 100 CPU s")]
    for size in (rows // 4, rows // 2, rows, rows * 2):
        place = str(folder / str(size))
        write(Path(place), size)
        told = apart(place, "spark", 2, [100])
        grown.append((f"{size:,}", *(f"{cpu:.1f}" for _, cpu in told.values())))
    tabulate("Scaling with rows, local[2]", grown)


def main() -> None:
    """Run everything, or what ``--only`` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--only", choices=("spark", "duckdb"))
    parser.add_argument("--archive")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--sizes", default="100")
    parser.add_argument("--job", default="")
    given = parser.parse_args()
    sizes = [int(each) for each in given.sizes.split(",")]
    if given.only is None:
        with tempfile.TemporaryDirectory() as folder:
            compare(Path(folder), given.rows)
    elif given.only == "spark":
        print(json.dumps(in_spark(given.archive, given.cores, sizes, given.job or None)))
    else:
        print(json.dumps(in_duckdb(given.archive, given.cores, sizes)))


if __name__ == "__main__":
    main()

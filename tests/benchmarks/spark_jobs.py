"""The Spark jobs beside DuckDB on the same files: ``python -m tests.benchmarks.spark_jobs [--rows 2000000]``.

Rows are deliveries; two belong to each message. Seeded. CPU is of the whole process tree (driver, JVM, workers), for
the machine may be busy with something else; wall time is the better of two runs in one session, the second being warm.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.ratios import report

NOON = 1_795_132_800_000
DAY, LIFE_MS = "2026-11-20", 86_400_000
TOPICS, ORDINALS, TAGS = 20, 50, 200
WIDE = 5_000
"""How many subscribers some messages of a skewed archive have."""
FILE_ROWS = 1_000_000
TICK = os.sysconf("SC_CLK_TCK")


def write(archive: Path, rows: int, skew: bool = False) -> None:
    """Write raw files as Firehose would: *rows* ends of deliveries, 2 % of which had waited, and what belongs to them.

    All promises are kept. With *skew* one topic has 80 % of the messages, one subscription half of the deliveries,
    and a quarter of the deliveries are of messages that 5,000 subscriptions match.
    """
    import duckdb

    made = duckdb.connect()
    made.execute("set threads = 2; set memory_limit = '3GB'; set preserve_insertion_order = false")
    wide = rows // 4 // WIDE if skew else 0
    count = (rows - wide * WIDE) // 2
    topic = "case when h % 100 < 80 then 0 else h % {n} end" if skew else "h % {n}"
    first = "case when h % 2 = 0 then 0 else (h // 64) % 25 * 2 end" if skew else "(h // 64) % 25 * 2"
    made.execute(f"""
        create macro drawn(low, high) as table (
          select n, h, {NOON - NOON % LIFE_MS} + n * {LIFE_MS} // {max(count, 1)} as born,
            {topic.format(n=TOPICS)} as t, {first} as one, (h // 2048) % 25 * 2 + 1 as two, h // 65536 as rest
          from (select range as n, hash(range) & 1152921504606846975 as h from range(low, high)));
        create macro id_of(born, n) as lpad(((born << 22) + n % 2097152)::varchar, 20, '0')
    """)
    noise = f"[x for x in [format('tag{{}}', ({TAGS} * pow((rest % 1000) / 1000, 3))::int)] if rest % 4 > 0]"
    message = """'t' || t || '.' || id_of(born, n) as record_id, 1 as schema_version, 't' || t as topic,
        id_of(born, n) as message_id, born as accepted_at, born + 86400000 as expires_at"""
    _copy(made, archive, "messages", count, f"""
        select {message}, ['s' || one, 's' || two] || {noise} as tags,
        map {{'price': (rest % 90)::varchar}} as properties,
        {ORDINALS} as subscriptions_version, [one, two] as matched, 0 as filter_error_count, 5 as body_bytes,
        'hello' as body from drawn(SPAN)""")  # fmt: skip
    took = "1 + (h // 4096) % 300 + case when waits then 20000 else 0 end"
    record = """'t' || t || '.' || id_of(born, n) || '.' || o || '.v2' as record_id, 1 as schema_version,
        't' || t as topic, id_of(born, n) as message_id, o as ordinal,
        case when h % 512 = 1 then 'expired' else 'delivered' end as state,
        case when waits then 2 else 1 end as attempts, born + took as last_attempt_at, 'http 200' as outcome,
        case when waits then null else born end as round_at, 50 as subscriptions_version, born as accepted_at,
        born + 86400000 as expires_at, (born + took) // 1000 * 1000 as changed_at"""
    ends = f"""from (select *, {took} as took from (select *, (h // 7) % 50 = 0 as waits from
        (select n, born, t, one as o, h from drawn(SPAN) union all select n, born, t, two,
        hash(h) & 1152921504606846975 from drawn(SPAN))))"""
    _copy(made, archive, "deliveries", count, f"select {record} {ends}", each=2)
    waited = """'7-t' || t || '.' || o || '.' || id_of(born, n) || '.d.1' as record_id, 1 as schema_version,
        '7-t' || t as topic_id, id_of(born, n) as message_id, o as ordinal, 'blocked' as state, 1 as attempts,
        born + 10 as last_attempt_at, 'http 500' as outcome, id_of(0, n) as position, born as accepted_at,
        born + 86400000 as expires_at, (born + 10) // 1000 * 1000 as changed_at"""
    _copy(made, archive, "deliveries", count, f"select {waited} {ends} where waits", "waits")
    if wide:
        of = f"""from (select *, {took} as took from (select *, false as waits
            from (select n + {count} as n, born, h, 'w' as t"""
        everybody = f"[x for x in range({WIDE})]"
        _copy(made, archive, "messages", wide, f"""
            select {message}, ['s0'] as tags, {ORDINALS} as subscriptions_version,
            {everybody} as matched, 0 as filter_error_count {of} from drawn(SPAN))))""", "wide")  # fmt: skip
        _copy(made, archive, "deliveries", wide,
              f"select {record} {of}, unnest({everybody}) as o from drawn(SPAN))))", "wide", each=WIDE)  # fmt: skip
    for kind, records in {"subscriptions": _settings(bool(wide)), "lanes": _lanes(NOON - NOON % LIFE_MS)}.items():
        folder = archive / "raw" / kind / f"dt={DAY}" / "hour=12"
        folder.mkdir(parents=True, exist_ok=True)
        lines = "".join(f"{json.dumps(each)}\n" for each in records)
        (folder / "0.gz").write_bytes(gzip.compress(lines.encode()))


def _copy(made: Any, archive: Path, kind: str, numbers: int, query: str, name: str = "part", each: int = 1) -> None:
    """Write what *query* gives of *numbers*, *each* rows of one, as gzipped JSON lines in files of a million rows."""
    folder = archive / "raw" / kind / f"dt={DAY}" / "hour=12"
    folder.mkdir(parents=True, exist_ok=True)
    parts = max(2, numbers * each // FILE_ROWS)
    for part in range(parts):
        span = f"{numbers * part // parts}, {numbers * (part + 1) // parts}"
        target = f"'{folder}/{name}{part}.gz' (format json, compression gzip)"
        made.execute(f"copy ({query.replace('SPAN', span)}) to {target}")


def _settings(wide: bool) -> list[dict[str, Any]]:
    pairs = [(f"t{t}", o, {"kind": "tags", "tags": [f"s{o}"]}) for t in range(TOPICS) for o in range(ORDINALS)]
    pairs += [("tw", o, {"kind": "tags", "tags": ["s0"]}) for o in range(WIDE if wide else 0)]
    found = []
    for topic, ordinal, filter in pairs:
        common = {
            "schema_version": 1, "topic": topic, "topic_id": f"7-{topic}", "subscription": f"s{ordinal}",
            "ordinal": ordinal, "version": 1, "changed_at": 0,
        }  # fmt: skip
        policy = {
            "strategy": "EXPONENTIAL_DECAY_RETRY", "max_retries": 176, "interval_s_max": 512, "timeout_s": 15,
            "protocol": "https",
        }  # fmt: skip
        found.append({"record_id": f"{topic}.{ordinal}.settings", "part": "settings", **common, **policy})
        since = {"filter": json.dumps(filter), "since": 1}
        found.append({"record_id": f"{topic}.{ordinal}.filter", "part": "filter", **common, **since})
    return found


def _lanes(start: int) -> list[dict[str, Any]]:
    rows = [(t, o, n) for t in range(TOPICS) for o in range(0, ORDINALS, 10) for n in range(4)]
    closed, opened = "lost_contact", "active"
    return [
        {
            "record_id": f"t{t}.{o}.{n}", "schema_version": 1, "topic": f"t{t}", "topic_id": f"7-t{t}", "ordinal": o,
            "state": opened if n % 2 else closed, "previous_state": closed if n % 2 else opened,
            "generation": f"{n // 2}", "changed_at": start - 86_400_000 + n * 900_000,
        }
        for t, o, n in rows
    ]  # fmt: skip


def candidates(number: int) -> list[tuple[str, dict[str, Any]]]:
    """Return *number* tag filters of one or two tags each."""
    dice = np.random.default_rng(number)
    return [
        (f"f{n}", {"kind": "tags", "tags": [f"tag{t}" for t in dice.choice(TAGS, 1 + n % 2)]}) for n in range(number)
    ]


def used() -> tuple[float, int]:
    """Return the CPU seconds of this process and all that it started, and the most memory that one of them had."""
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    peak = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        parents[pid], spent[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    total = 0
    for pid in spent:
        ancestor = pid
        while ancestor not in (os.getpid(), 0, 1) and ancestor in parents:
            ancestor = parents[ancestor]
        if ancestor == os.getpid():
            total += spent[pid]
            with suppress(OSError, IndexError):  # It has ended.
                status = Path(f"/proc/{pid}/status").read_text()
                peak = max(peak, int(status.partition("VmHWM:")[2].split()[0]) // 1024)
    return total / TICK, peak


def measured(run: Callable[[], object], repeats: int = 2) -> tuple[float, float]:
    """Return wall and CPU seconds of the better of several runs."""
    found = []
    for _ in range(repeats):
        began, (spent, _) = time.perf_counter(), used()
        run()
        found.append((time.perf_counter() - began, used()[0] - spent))
    return min(found)


def spilled_mb(session: Any) -> int:
    """Return what the stages so far wrote to disk because memory did not hold it."""
    gateway = session.sparkContext._gateway
    empty, none = gateway.new_array(gateway.jvm.double, 0), gateway.jvm.java.util.ArrayList()
    stages = session.sparkContext._jsc.sc().statusStore().stageList(none, False, False, empty, none)
    return sum(int(stages.apply(n).diskBytesSpilled()) for n in range(stages.size())) >> 20


def in_spark(archive: str, cores: int, sizes: list[int], job: str | None, repeats: int = 2) -> dict[str, Any]:
    """Run the jobs in a session of their own with *cores*: wall and CPU seconds, peak memory and spill in MiB."""
    from tagcast.archive.record import RecordKind

    from glue_jobs import audit, backtest, compact, delivery_report
    from glue_jobs.auditing import history
    from glue_jobs.auditing.audit_entries import Terms
    from glue_jobs.io.arguments import moment, parse, parser, window
    from glue_jobs.io.session import open_session
    from glue_jobs.io.storage import Archive
    from glue_jobs.measuring import measures

    made = parser("bench", "", 1)
    given = parse(made, ["--archive", archive, "--master", f"local[{cores}]", "--driver-memory", "8g", "--date", DAY])
    days = window(made, given)
    where = Archive.at(open_session(given), archive)

    def tables() -> Any:
        where.suit(days.days())
        return {kind: where.records(kind, days.days()) for kind in RecordKind}

    def pack() -> None:
        for kind in RecordKind:
            compact.compact(where, kind, days, rebuild=True)

    def report() -> None:
        made = delivery_report.report(history.read(where, days, None), days.end_at)
        delivery_report.hour_rows(made).write.mode("overwrite").format("noop").save()
        where.spark.catalog.clearCache()

    def prove() -> None:
        terms = Terms(moment("2026-11-23"), 1000)
        found, counts = audit.violations(history.read(where, days, None), terms)
        assert (found.count(), counts["gaps_judged"] > 0) == (0, True), found.limit(5).collect()
        where.spark.catalog.clearCache()

    def seal() -> None:
        where.suit(days.days())
        audit.roots(where, days)

    def test(number: int) -> Callable[[], None]:
        def run() -> None:
            messages = tables()[RecordKind.MESSAGES].withColumn("hour", measures.hour_of("accepted_at"))
            backtest.count_all(messages, candidates(number))
            where.spark.catalog.clearCache()

        return run

    jobs = {"compact": pack, "report": report, "audit": prove, "merkle": seal}
    jobs |= {f"backtest {number:,}": test(number) for number in sizes}
    found = {}
    for name, run in jobs.items():
        if job is None or name.split()[0] in job.split(","):
            before = spilled_mb(where.spark)
            figures = measured(run, 1 if name == "compact" else repeats)
            found[name] = (*figures, used()[1], spilled_mb(where.spark) - before)
            print(name, found[name], file=sys.stderr, flush=True)
    return found


def in_duckdb(archive: str, cores: int, sizes: list[int]) -> dict[str, tuple[float, float]]:
    """Do the same with DuckDB: the report's table; conservation alone of the audit; counts of the backtest."""
    import duckdb

    def connection() -> Any:
        made = duckdb.connect()
        made.execute(f"set threads = {cores}")
        for kind in ("messages", "deliveries"):
            files = Path(archive, "curated", kind, "manifest", f"dt={DAY}", "files").read_text().split()
            made.execute(f"create view {kind} as select * from read_parquet({files})")
        return made

    keys = "topic, ordinal, accepted_at // 3600000 as hour"
    quantiles = ", ".join(f"quantile_disc(last_attempt_at - accepted_at, {q})" for q in (0.5, 0.95, 0.99))
    ends = "count(*) filter (state = 'delivered'), count(*) filter (state = 'expired'), sum(attempts - 1)"
    pending = "select topic, message_id, unnest(matched) as ordinal, expires_at from messages"
    ended = (
        "select topic, message_id, ordinal, count(*) as n, max(last_attempt_at) as last from deliveries group by all"
    )
    both = f"({pending}) o full join ({ended}) e using (topic, message_id, ordinal)"
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


def apart(archive: str, engine: str, cores: int, sizes: list[int], job: str = "") -> dict[str, Any]:
    """Run in a process of its own, so that sessions and caches do not meet."""
    command = [sys.executable, "-m", "tests.benchmarks.spark_jobs", "--only", engine, "--archive", archive]
    command += ["--cores", str(cores), "--sizes", ",".join(map(str, sizes)), "--job", job]
    answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    told: dict[str, Any] = json.loads(answer.splitlines()[-1])
    return told


def tabulate(title: str, rows: list[tuple[str, ...]]) -> None:
    """Print rows below each other."""
    print(f"\n{title}")
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join([row[0].ljust(widths[0]), *cells[1:]]), flush=True)


def compare(folder: Path, rows: int, skew: bool) -> None:
    """Print both engines side by side, and what Spark took for each million deliveries."""
    archive, sizes = str(folder / "main"), [10, 100, 1000]
    write(Path(archive), rows, skew)
    ours = apart(archive, "spark", 2, sizes)
    theirs = apart(archive, "duckdb", 2, sizes)
    lines: list[tuple[str, ...]] = [
        ("job", "CPU s", "per million", "wall s", "peak MiB", "spilled MiB", "DuckDB CPU s", "wall s")
    ]
    for name, (wall, cpu, peak, spilled) in ours.items():
        other = tuple(f"{each:.2f}" for each in reversed(theirs.get(name, ()))) or ("", "")
        if name in theirs:
            report(f"{name} of {rows:,} deliveries{', skewed' if skew else ''}, CPU", theirs[name][1] / cpu, "DuckDB")
        million = f"{cpu / rows * 1_000_000:.1f}"
        lines.append((name, f"{cpu:.1f}", million, f"{wall:.1f}", str(peak), str(spilled), *other))
    tabulate(f"{rows:,} deliveries{', skewed' if skew else ''}, two cores, 8 GiB", lines)
    for path in sorted(Path(archive, "curated").rglob("*.parquet")):
        print(f"{path.stat().st_size >> 20:>6} MiB  {path.relative_to(archive)}")


def main() -> None:
    """Run everything, or what ``--only`` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--skew", action="store_true", help="one large topic, one large subscription, wide messages")
    parser.add_argument("--only", choices=("write", "spark", "duckdb"))
    parser.add_argument("--archive")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--sizes", default="100")
    parser.add_argument("--job", default="", help="compact,report,audit,merkle,backtest: only these")
    parser.add_argument("--repeats", type=int, default=2)
    given = parser.parse_args()
    sizes = [int(each) for each in given.sizes.split(",")]
    if given.only is None:
        with tempfile.TemporaryDirectory() as folder:
            compare(Path(folder), given.rows, given.skew)
    elif given.only == "write":
        write(Path(given.archive), given.rows, given.skew)
    elif given.only == "spark":
        print(json.dumps(in_spark(given.archive, given.cores, sizes, given.job or None, given.repeats)))
    else:
        print(json.dumps(in_duckdb(given.archive, given.cores, sizes)))


if __name__ == "__main__":
    main()

"""What the Spark jobs take for a day of deliveries: ``python -m tests.benchmarks.spark_jobs [--rows 2000000]``.

Rows are deliveries; two belong to each message. Seeded. CPU is of the whole process tree (driver, JVM, workers), for
the machine may be busy with something else; wall time is the better of two runs in one session, the second being warm.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.harness import cpu_s, print_heading, processes

NOON = 1_795_132_800_000
DAY, LIFE_MS = "2026-11-20", 86_400_000
TOPICS, ORDINALS, TAGS = 20, 50, 200
WIDE = 5_000
"""How many subscribers some messages of a skewed archive have."""
FILE_ROWS = 1_000_000


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


def peak_mib() -> int:
    """Return the most memory that this process, or one that it started, had so far."""
    peak = 0
    for pid in processes(os.getpid()):
        with suppress(OSError, IndexError):  # It has ended.
            status = Path(f"/proc/{pid}/status").read_text()
            peak = max(peak, int(status.partition("VmHWM:")[2].split()[0]) // 1024)
    return peak


def measured(run: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Return wall and CPU seconds of the better of several runs."""
    found = []
    for _ in range(repeats):
        began, spent = time.perf_counter(), sum(cpu_s(os.getpid()).values())
        run()
        found.append((time.perf_counter() - began, sum(cpu_s(os.getpid()).values()) - spent))
    return min(found)


def spilled_mb(session: Any) -> int:
    """Return what the stages so far wrote to disk because memory did not hold it."""
    gateway = session.sparkContext._gateway
    empty, none = gateway.new_array(gateway.jvm.double, 0), gateway.jvm.java.util.ArrayList()
    stages = session.sparkContext._jsc.sc().statusStore().stageList(none, False, False, empty, none)
    return sum(int(stages.apply(n).diskBytesSpilled()) for n in range(stages.size())) >> 20


def jobs_of(archive: str) -> tuple[Any, dict[str, Callable[[], None]]]:
    """Return a session of two cores and 8 GiB, and the jobs over *archive* in it."""
    from tagcast.archive.record import RecordKind

    from glue_jobs import audit, backtest, compact, delivery_report
    from glue_jobs.auditing import history
    from glue_jobs.auditing.audit_entries import Terms
    from glue_jobs.io.arguments import moment, parse, parser, window
    from glue_jobs.io.session import open_session
    from glue_jobs.io.storage import Archive
    from glue_jobs.measuring import measures

    made = parser("bench", "", 1)
    given = parse(made, ["--archive", archive, "--master", "local[2]", "--driver-memory", "8g", "--date", DAY])
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
    return where.spark, jobs | {f"backtest {number:,}": test(number) for number in (10, 100, 1_000)}


def main() -> None:
    """Print what each job took, and what compaction wrote."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--skew", action="store_true", help="one large topic, one large subscription, wide messages")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), given.rows, given.skew)
        session, jobs = jobs_of(folder)
        print(f"{given.rows:,} deliveries{', skewed' if given.skew else ''}, two cores, 8 GiB\n")
        print_heading("job", "CPU s", "per million", "wall s", "peak MiB", "spilled MiB")
        for name, run in jobs.items():
            before = spilled_mb(session)
            wall_s, spent_s = measured(run, 1 if name == "compact" else 2)
            million, spilled = spent_s / given.rows * 1_000_000, spilled_mb(session) - before
            print(f"| {name} | {spent_s:.1f} | {million:.1f} | {wall_s:.1f} | {peak_mib()} | {spilled} |", flush=True)
        for path in sorted(Path(folder, "curated").rglob("*.parquet")):
            print(f"{path.stat().st_size >> 20:>6} MiB  {path.relative_to(folder)}")


if __name__ == "__main__":
    main()

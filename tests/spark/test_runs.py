"""Compacting without rows in Spark: the quick reader agrees with the rule, and runs merge to each record once."""

import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession
from tagcast.archive.record import RecordKind

from glue_jobs.compacting import lines, runs
from glue_jobs.compacting.runs import Range, Source, merge, ranges_of, read_sources
from glue_jobs.erasing.contents import salt_of
from glue_jobs.io import raw
from glue_jobs.io.objects import FolderObjects
from glue_jobs.io.schemas import SCHEMAS
from tests.spark.story import DAY, NOON, message

KIND = RecordKind.MESSAGES
ONE = json.dumps(message(1), separators=(",", ":"))


def having(text: str) -> str:
    """A message's line, with more at its end."""
    return f"{ONE[:-1]},{text}}}"


PLAIN = [
    ONE,
    json.dumps(message(2, properties={"a": "1", "b c": "}{"}, body='"properties":{"a":"b"}')),
    having('"properties":{"a":"\\u00e9\\"}","b":"é"},"body":"\\ud83d\\ude00"'),
    having('"properties":{},"filter_errors":[],"routing_key":null'),
    having('"salts":{"body":"x"},"hashes":{"keys":"y"},"replay_of":"7"'),
    having('"body_bytes":9007199254740993,"body_is_text":true,"colour":{"properties":1}'),
]
ODD = [
    "",
    " ",
    "[1]",
    "7",
    "null",
    "{}",
    ONE[:-1],
    f"{ONE}{ONE}",
    f"{ONE} x",
    f" {ONE}",
    f"{ONE} ",
    f"{ONE}\r",
    f"\ufeff{ONE}",
    having('"properties":{"a":1}'),
    having('"properties":{"a":"1","a":"2"}'),
    having('"properties":{"a":"1","\\u0061":"2"}'),
    having('"properties":{"a":null}'),
    having('"properties":[]'),
    having('"properties":[{"key":"a","value":"b"}]'),
    having('"properties":"a"'),
    having('"properties":{"a":"b",}'),
    having('"salts":{"body":{}}'),
    having('"colour":{"properties":{"a":"b"}}'),
    having('"colour":{"colour":1,"colour":2}'),
    having('"filter_errors":["a",null]'),
    having('"filter_errors":"a"'),
    having('"body":7'),
    having('"body":"\\ud800"'),
    having('"body":"\t"'),
    having('"body_bytes":5.0'),
    having('"body_bytes":1e3'),
    having('"body_bytes":"5"'),
    having('"body_bytes":05'),
    having('"body_bytes":99999999999999999999'),
    having('"body_bytes":NaN'),
    having('"body_is_text":1'),
    having('"topic":"again"'),
    json.dumps({**message(3), "schema_version": 3_000_000_000}),
    json.dumps({**message(3), "accepted_at": -1}),
    json.dumps({**message(3), "accepted_at": 4_102_444_800_001}),
    json.dumps({**message(3), "topic": None}),
    json.dumps({**message(3), "matched": [1.5]}),
]


def read(text: str, *, zipped: bool = False) -> list[dict[str, Any]] | None:
    content = f"{text}\n".encode()
    found = lines.read_file(gzip.compress(content) if zipped else content, KIND, zipped=zipped)
    return None if found is None else found.records.to_pylist(maps_as_pydicts="strict")


def test_what_the_quick_reader_does_not_refuse_it_reads_as_the_rule_says(spark: SparkSession) -> None:
    every = [each for each in [*PLAIN, *ODD] if "\r" not in each]
    rows = raw.parse_lines(
        spark.createDataFrame([(n, each) for n, each in enumerate(every)], "n int, line string"), KIND
    )
    by_rule = {row.n: row.asDict(recursive=True) for row in rows.collect()}
    for number, text in enumerate(every):
        if (record := raw.record_of(text, KIND)) is not None:
            assert not by_rule[number]["is_corrupt"], text
            names = ("tags", "properties", "body")
            assert [by_rule[number][name] for name in names] == [record.get(name) for name in names] or "\\ud8" in text
        if (found := read(text)) is not None:
            rule = by_rule[number]
            assert not rule["is_corrupt"], text
            assert found == [{name: rule[name] for name in SCHEMAS[KIND].fieldNames()}], text
    assert len([each for each in by_rule.values() if each["is_corrupt"]]) > 20
    assert sum(raw.record_of(text, KIND) is not None for text in every) > 10


@pytest.mark.parametrize("zipped", [False, True])
def test_plain_lines_are_read_quickly_and_one_odd_line_refuses_its_file(zipped: bool) -> None:
    for text in PLAIN:
        assert len(read(text, zipped=zipped) or ()) == 1, text
    for text in ODD:
        assert read("\n".join([ONE, text, ONE]), zipped=zipped) is None, text
    assert len(read("\n".join(PLAIN * 50), zipped=zipped) or ()) == 300


def test_files_are_read_in_blocks_of_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [json.dumps(message(n, properties={"n": str(n)})) for n in range(50)]
    for size in (7, 300, 1000):
        monkeypatch.setattr(lines, "BLOCK_BYTES", size)
        found = read("\n".join(texts), zipped=True)
        assert [each["properties"] for each in found or ()] == [{"n": str(n)} for n in range(50)]


def test_bytes_that_are_no_text_and_files_that_are_cut_short_are_refused() -> None:
    assert lines.read_file(ONE.encode()[:-9] + b"\xff" + ONE.encode()[-9:] + b"\n", KIND, zipped=False) is None
    whole = gzip.compress(f"{ONE}\n".encode() * 100)
    for content in (whole[:-9], whole[: len(whole) // 2], whole[:-5] + b"\0" + whole[-4:], b"text"):
        assert lines.read_file(content, KIND, zipped=True) is None
    two = lines.read_file(whole + whole, KIND, zipped=True)
    assert two is not None
    assert len(two.records) == 200


def drawn(dice: random.Random, number: int) -> list[dict[str, Any]]:
    """Messages of a few topics, one of them large; some come again as they are, or as something else."""
    made = []
    for n in range(number):
        topic = "t0" if dice.random() < 0.6 else f"t{dice.randrange(1, 12)}"
        properties = {name: str(dice.randrange(5)) for name in dice.sample("abcd", 3)}
        made.append(message(n, topic, at=NOON + dice.randrange(number) * 5, properties=properties))
    again = [{**each, "properties": dict(reversed(each["properties"].items()))} for each in dice.sample(made, 30)]
    return made + again + dice.sample(made, 30)


def compacted(folder: Path, sources: list[Source], packed: int, prefix: str) -> tuple[list[dict[str, Any]], list[str]]:
    """Do in this process what the job has workers do; return what is told of the files, and their keys."""
    read = pa.Table.from_batches(read_sources(lambda: FolderObjects(folder), sources, KIND, "key")).to_pylist()
    assert {file for file, *_ in (each["days"] for each in read if each["days"])} == {
        each.key for each in sources if not each.is_curated
    }
    read = [each for each in read if each["dt"] is not None]
    bytes_of = {DAY: sum(each["packed"] for each in read)}
    weights = [(each["dt"], each["first"], each["packed"]) for each in read]
    ranges = ranges_of(weights, bytes_of, -(-bytes_of[DAY] // packed))

    def placed() -> Iterator[Any]:
        for number, each in enumerate(ranges):
            inside = [
                one for one in read if (each.high is None or one["first"] < each.high) and one["last"] >= each.low
            ]
            ordered = sorted(inside, key=lambda one: str(one["first"]))
            names = ("first", "content")
            columns = [[number] * len(ordered), *([one[name] for one in ordered] for name in names)]
            yield pa.RecordBatch.from_arrays(list(map(pa.array, columns)), ["number", *names])

    told = pa.Table.from_batches(merge(placed(), lambda: FolderObjects(folder), KIND, prefix, ranges)).to_pylist()
    return told, [each["key"] for each in told]


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(1, 12))])
def test_runs_merge_to_each_record_once_in_order_and_a_topic_is_in_few_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    dice = random.Random(seed)
    monkeypatch.setattr(runs, "CHUNK_ROWS", dice.choice([7, 50]))
    monkeypatch.setattr(runs, "GROUP_ROWS", 150)
    monkeypatch.setattr(runs, "RUN_BYTES", dice.choice([1, 20_000]))
    records = drawn(dice, 3000)
    whole = {each["record_id"]: each for each in records}
    dice.shuffle(records)
    sources = []
    for n in range(8):
        text = "".join(f"{json.dumps(each)}\n" for each in records[n::8])
        (tmp_path / f"{n}.gz").write_bytes(gzip.compress(text.encode()))
        sources.append(Source(f"{n}.gz"))

    told, keys = compacted(tmp_path, sources, 4, "first/")

    assert len(keys) == 4
    assert sum(each["records"] for each in told) == len(whole)
    assert sum(each["duplicates"] for each in told) == len(records) - len(whole)
    assert sum(each["conflicts"] for each in told) == 0
    found = [each for key in keys for each in parquet.read_table(tmp_path / key).to_pylist(maps_as_pydicts="strict")]
    assert [each["record_id"] for each in found] == sorted(whole)
    for each in found:
        assert {name: each[name] for name in whole[each["record_id"]]} == whole[each["record_id"]]
        assert each["salt"] == salt_of("key", each["record_id"])
    assert max(each["bytes"] for each in told) < 2 * min(each["bytes"] for each in told)
    groups = [
        parquet.ParquetFile(tmp_path / key).metadata.row_group(n)
        for key in keys
        for n in range(parquet.ParquetFile(tmp_path / key).num_row_groups)
    ]
    place = parquet.read_schema(tmp_path / keys[0]).names.index("topic")
    for topic in ("t0", "t5"):
        mine = sum(each["topic"] == topic for each in whole.values())
        seen = [
            group
            for group in groups
            if group.column(place).statistics.min <= topic <= group.column(place).statistics.max
        ]
        assert sum(group.num_rows for group in seen) < mine + 2 * max(group.num_rows for group in groups)
        assert len(seen) < len(groups)

    # What was compacted is a run like others: with everything again it comes to the same.
    again, keys = compacted(tmp_path, [*(Source(key, is_curated=True) for key in keys), *sources], 4, "second/")
    assert [each["record_id"] for key in keys for each in parquet.read_table(tmp_path / key).to_pylist()] == sorted(
        whole
    )
    assert sum(each["duplicates"] for each in again) == len(records)


def test_large_records_beside_many_small_ones_make_chunks_and_files_of_the_usual_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "CHUNK_BYTES", 50_000)
    dice = random.Random(20261128)
    large = [message(n, "large", body=dice.randbytes(5_000).hex()) for n in range(200)]
    told = [json.dumps(each) for each in [*large, *(message(n, "small") for n in range(5_000))]]
    (tmp_path / "1.gz").write_bytes(gzip.compress("\n".join(told).encode()))

    chunks = read_sources(lambda: FolderObjects(tmp_path), [Source("1.gz")], KIND, "key")
    assert max(len(each["content"][0].as_py() or "") for each in chunks) < 125_000

    for source in (Source("1.gz"), Source("0/file", is_curated=True)):
        files, _ = compacted(tmp_path, [source], 10, "1/")
        assert sum(each["records"] for each in files) == 5_200
        sizes = [each["bytes"] for each in files]
        assert max(sizes) < 2 * sum(sizes) / len(sizes)
        (tmp_path / "0").mkdir(exist_ok=True)
        whole = pa.concat_tables([parquet.read_table(tmp_path / each["key"], partitioning=None) for each in files])
        parquet.write_table(whole.sort_by("record_id"), tmp_path / "0/file", row_group_size=500)


def test_a_curated_file_is_read_one_row_group_after_the_other(tmp_path: Path) -> None:
    with parquet.ParquetWriter(tmp_path / "file", lines.arrow_schema(KIND), use_dictionary=False) as writer:
        for group in range(8):
            writer.write_table(table_of([message(group * 100 + n, body="y" * 40_000) for n in range(100)]))
    before = pa.total_allocated_bytes()

    chunks = read_sources(lambda: FolderObjects(tmp_path), [Source("file", is_curated=True)], KIND, "key")

    assert next(chunks)["records"][0].as_py() > 0
    assert pa.total_allocated_bytes() - before < 4 * 100 * 40_000
    assert sum(each["records"][0].as_py() for each in chunks) < 800


def table_of(records: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(records, lines.arrow_schema(KIND))


def test_of_records_that_differ_the_same_is_kept_and_an_erased_one_before_all() -> None:
    one, other = {**message(1), "properties": [("a", "1")]}, {**message(1), "topic": "other"}
    erased = {**message(1), "hashes": [("body", "h")], "tags": None}
    for records in ([one, other], [other, one]):
        place, conflicts = runs.choose_record(records)
        assert (records[place], conflicts) == (one, 1)
    for records in ([one, erased, other], [erased, one, other]):
        place, conflicts = runs.choose_record(records)
        assert (records[place], conflicts) == (erased, 1)
    assert runs.choose_record([one, one, one]) == (0, 0)


def test_of_many_copies_the_one_that_differs_is_a_conflict_and_no_duplicate(tmp_path: Path) -> None:
    records = [message(n, "t") for n in range(40)]
    for place in (0, 17, 39):
        other = {**records[place], "tags": ["pear"]}
        (tmp_path / "1.gz").write_bytes(
            gzip.compress("".join(f"{json.dumps(each)}\n" for each in [*records, *records, other]).encode())
        )
        [told], [key] = compacted(tmp_path, [Source("1.gz")], 1, f"{place}/")

        assert (told["records"], told["duplicates"], told["conflicts"]) == (40, 40, 1)
        kept = parquet.read_table(tmp_path / key).to_pylist()
        assert [each["record_id"] for each in kept] == [each["record_id"] for each in records]


def test_ranges_begin_where_the_bytes_of_a_day_say() -> None:
    sample = [("d1", f"{n:02d}", 10) for n in range(10)] + [("d2", "a", 1)]
    assert ranges_of(sample, {"d2": 5, "d1": 100}, 50) == [
        Range("d1", "", "05"), Range("d1", "05", None), Range("d2", "", None),
    ]  # fmt: skip
    assert [each.low for each in ranges_of([("d1", "x", 9)], {"d1": 100}, 50)] == ["", "x"]

"""What template.yaml says of the archive is what the jobs read and write."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from tagcast.archive.change_records import records_of
from tagcast.archive.record import RecordKind, RowChange
from tagcast.instant import DAY_MS
from tagcast.model import RETENTION_S_MAX, Draft, Message
from tagcast.rows.message import MESSAGES, MessageRow
from tagcast.rows.state_map import StateMap
from tagcast.trace_context import TraceContext

from glue_jobs import package
from glue_jobs.auditing.audit_entries import ENDED_WITHIN_MS
from glue_jobs.erasing import contents
from glue_jobs.io import manifests, schemas
from tests.template import declared

RESOURCES: dict[str, Any] = declared()
TABLES = {
    each["Properties"]["TableInput"]["Name"]: each["Properties"]["TableInput"]
    for each in RESOURCES.values()
    if each["Type"] == "AWS::Glue::Table"
}
JOBS = {lid: each["Properties"] for lid, each in RESOURCES.items() if each["Type"] == "AWS::Glue::Job"}


@pytest.mark.parametrize("kind", RecordKind)
def test_every_kind_of_record_has_a_table_with_its_columns(kind: RecordKind) -> None:
    columns = TABLES[kind.value]["StorageDescriptor"]["Columns"]
    declared = ", ".join(f"{column['Name']} {column['Type']}" for column in columns)
    fields = schemas.SCHEMAS[kind].fields
    assert declared == ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)


@pytest.mark.parametrize("name", TABLES)
def test_curated_tables_are_read_through_their_manifests_and_the_others_as_files(name: str) -> None:
    descriptor = TABLES[name]["StorageDescriptor"]
    form, place = descriptor["InputFormat"].rpartition(".")[2], descriptor["Location"]["Fn::Sub"]
    if name in {kind.value for kind in RecordKind}:
        folder = manifests.manifest_key(RecordKind(name), "DAY").partition("dt=")[0]
        assert (form, place) == ("SymlinkTextInputFormat", f"s3://${{ArchiveBucket}}/{folder}")
    else:
        assert (form, "/reports/" in place) == ("MapredParquetInputFormat", True)


@pytest.mark.parametrize("name", TABLES)
def test_tables_find_their_days_without_a_crawler(name: str) -> None:
    parameters = TABLES[name]["Parameters"]
    location = TABLES[name]["StorageDescriptor"]["Location"]["Fn::Sub"]
    assert parameters["storage.location.template"]["Fn::Sub"] == f"{location}dt=${{!dt}}/"
    assert (parameters["projection.enabled"], parameters["projection.dt.type"]) == ("true", "date")


def test_every_job_runs_a_script_that_the_package_holds_on_the_version_that_is_tested() -> None:
    scripts = {job["Command"]["ScriptLocation"]["Fn::Sub"].rpartition("/")[2] for job in JOBS.values()}
    assert scripts == {f"{name}.py" for name in package.JOBS}
    for job in JOBS.values():
        assert job["GlueVersion"] == "5.1"
        assert job["DefaultArguments"]["--job-bookmark-option"] == "job-bookmark-disable"
        assert job["DefaultArguments"]["--extra-py-files"]["Fn::Sub"].endswith(f"/{package.ARCHIVE}")


def test_a_day_is_compacted_before_it_is_reported_and_reported_before_it_is_audited() -> None:
    triggers = {lid: each["Properties"] for lid, each in RESOURCES.items() if each["Type"] == "AWS::Glue::Trigger"}
    begun_by = {
        each["Actions"][0]["JobName"]["Ref"]: [
            condition["JobName"]["Ref"] for condition in each.get("Predicate", {}).get("Conditions", [])
        ]
        for each in triggers.values()
    }
    assert begun_by == {
        "CompactJob": [],
        "DeliveryReportJob": ["CompactJob"],
        "AuditJob": ["DeliveryReportJob"],
        "RetainJob": ["CompactJob"],
    }


def test_a_week_of_failed_nights_is_made_up_for_by_the_next_compaction() -> None:
    [action] = RESOURCES["DailyCompact"]["Properties"]["Actions"]
    assert action["Arguments"] == {"--lookback-days": "7"}


def test_a_day_is_reported_and_audited_once_more_when_its_last_delivery_has_ended() -> None:
    """A message lives for a day after the last one of its day, and the sweep may take hours to write its end."""
    days = [
        int(RESOURCES[trigger]["Properties"]["Actions"][0]["Arguments"]["--lookback-days"])
        for trigger in ("DailyReport", "DailyAudit")
    ]
    assert (min(days) - 1) * DAY_MS >= 1000 * RETENTION_S_MAX + ENDED_WITHIN_MS


def test_a_worker_has_memory_for_a_file_of_firehose_in_each_of_its_tasks() -> None:
    """Four tasks of a G.1X read a file each, beside a JVM of 10 of its 16 GB.

    `compact` took 924 MiB for a file of 16 MiB (778,500 messages, 255 MB of text), 58 MiB for each.
    """
    sizes = [
        each["Properties"]["ExtendedS3DestinationConfiguration"]["BufferingHints"]["SizeInMBs"]
        for each in RESOURCES.values()
        if each["Type"] == "AWS::KinesisFirehose::DeliveryStream"
    ]
    assert len(sizes) == len(RecordKind)
    assert 4 * 58 * max(sizes) <= (16 - 10) * 1024


def test_the_page_names_the_columns_of_each_part_as_they_are_hashed() -> None:
    """A reader who knows a salt verifies an erased part by them."""
    page = (Path(__file__).parents[2] / "docs/archive.md").read_text()
    for part, columns in contents.COLUMNS.items():
        listed = ", ".join(f"`{name}`" for name in columns)
        assert (f"`{part}`," if columns == (part,) else f"`{part}` ({listed})") in page.replace("\n", " ")


def test_all_that_a_producer_writes_can_be_taken_out() -> None:
    trace = TraceContext("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "vendor=MARK")
    draft = Draft(b"MARK", True, ("MARK",), "MARK", {"MARK": "MARK"}, "MARK", "text/MARK", trace)
    without = [each.name for each in fields(Draft) if not getattr(draft, each.name)]
    assert without == [], "give the draft above a text with MARK in these fields"
    message = Message("orders", "00000000000000000001", draft, 0, 1)
    row = MESSAGES.row_of(MessageRow(message, StateMap.of([0]), 1))
    stored = {"pk": "MSG#orders#00000000000000000001", "sk": "MSG", **row}

    [record] = records_of(RowChange(None, stored, 0), lambda topic: True)

    marked = {name for name, value in record.fields.items() if "MARK" in json.dumps(value)}
    assert marked <= set(contents.CONTENT), "glue_jobs.erasing.contents.COLUMNS leaves these columns in the archive"
    assert {"body", "tags", "properties"} <= marked

"""What template.yaml says of the archive is what the jobs read and write."""

from pathlib import Path
from typing import Any

import pytest
from samtranslator.yaml_helper import yaml_parse
from tagcast.archive.record import RecordKind

from glue_jobs import package
from glue_jobs.io import manifests, schemas

ROOT = Path(__file__).resolve().parents[2]
RESOURCES: dict[str, Any] = yaml_parse((ROOT / "template.yaml").read_text())["Resources"]
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
    assert declared == schemas.same_columns(schemas.SCHEMAS[kind])


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

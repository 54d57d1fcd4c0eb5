"""What the layer and AWS Glue install is what was tested here, by its hashes, and nothing besides."""

import re
import subprocess
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from glue_jobs.package import REPLAY, main
from tests.template import declared

ROOT = Path(__file__).parents[2]
LAYER = ROOT / "layers/tag_matching/python"
FUNCTIONS: dict[str, str] = {"python_version": "3.13", "python_full_version": "3.13.0", "platform_machine": "aarch64"}
GLUE: dict[str, str] = {"python_version": "3.11", "python_full_version": "3.11.0", "platform_machine": "x86_64"}
LINUX: dict[str, str] = {
    "sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "extra": "",
    "platform_python_implementation": "CPython", "implementation_name": "cpython",
}  # fmt: skip


def locked(file: Path) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the version and the hashes of each package in a file of requirements."""
    found = {}
    for entry in re.split(r"\n(?=\S)", file.read_text().strip()):
        named = re.match(r"([a-z0-9-]+)==([^\s;]+)", entry)
        assert named is not None, entry
        found[named[1]] = (named[2], frozenset(re.findall(r"--hash=(sha256:[0-9a-f]{64})", entry)))
    return found


def needed(names: set[str], where: dict[str, str]) -> set[str]:
    """Return *names* and what these need on a machine, as the packages that are installed here say."""
    found: set[str] = set()
    while names:
        found |= names
        asked = [Requirement(text) for name in names for text in distribution(name).requires or ()]
        wanted = (each for each in asked if each.marker is None or each.marker.evaluate({**LINUX, **where}))
        names = {re.sub(r"[._]", "-", each.name.lower()) for each in wanted} - found
    return found


def dependencies(project: Path) -> set[str]:
    return {re.split(r"[^a-z0-9-]", each)[0] for each in tomllib.loads(project.read_text())["project"]["dependencies"]}


@pytest.mark.parametrize(
    ("file", "names", "where"),
    [
        # Lambda brings boto3.
        (LAYER / "requirements.txt", dependencies(ROOT / "pyproject.toml") - {"boto3"}, FUNCTIONS),
        (REPLAY, dependencies(ROOT / "clients/python/pyproject.toml"), GLUE),
    ],
    ids=["layer", "replay job"],
)
def test_what_is_installed_elsewhere_is_all_that_is_needed_as_it_was_tested(
    file: Path, names: set[str], where: dict[str, str]
) -> None:
    installed, tested = locked(file), locked(ROOT / "requirements.lock")

    assert installed.keys() == needed(names, where)
    for name, (version, hashes) in installed.items():
        assert (version, bool(hashes), hashes <= tested[name][1]) == (tested[name][0], True, True), name


def test_the_layer_is_locked_from_the_dependencies_that_the_project_names() -> None:
    named = set((ROOT / "layers/tag_matching/requirements.in").read_text().split())
    assert named == dependencies(ROOT / "pyproject.toml") - {"boto3"}


def test_the_layer_is_built_by_hashes_for_the_machine_of_the_functions(tmp_path: Path) -> None:
    layer = declared()["TagMatchingLayer"]
    assert layer["Metadata"] == {"BuildMethod": "makefile", "BuildArchitecture": "arm64"}
    assert (ROOT / layer["Properties"]["ContentUri"]) == LAYER

    command = ["make", "--dry-run", "build-TagMatchingLayer", f"ARTIFACTS_DIR={tmp_path}"]
    told = subprocess.run(command, cwd=LAYER, capture_output=True, text=True, check=True).stdout.split()

    assert {"--require-hashes", "--no-deps", "manylinux_2_28_aarch64"} <= set(told)
    assert told[told.index("--python-version") + 1] == layer["Properties"]["CompatibleRuntimes"][0].removeprefix(
        "python"
    )


def test_the_replay_job_installs_its_lock_and_no_other_job_installs_anything(tmp_path: Path) -> None:
    resources = declared()
    jobs = {name: each for name, each in resources.items() if each["Type"] == "AWS::Glue::Job"}
    given = {name: job["Properties"]["DefaultArguments"] for name, job in jobs.items()}
    installing = {name: each for name, each in given.items() if "--additional-python-modules" in each}
    assert installing.keys() == {"ReplayJob"}
    job = installing["ReplayJob"]
    assert job["--python-modules-installer-option"] == "-r"

    assert main([str(tmp_path)]) == 0

    name = job["--additional-python-modules"]["Fn::Sub"].removeprefix("s3://${ArchiveBucket}/jobs/")
    assert (tmp_path / name).read_text() == REPLAY.read_text()

"""The packages: what each brings, and the command line where nothing else is installed but what it names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.unit.cli.conftest import fake_api

ROOT = Path(__file__).parents[2]
PACKAGES = {".": {"tagcast", "tagcast_aws"}, "clients/python": {"tagcast_client"}, "clients/cli": {"tagcast_cli"}}
OURS = {"tagcast-client", "tagcast-cli"}


def fresh_checkout(folder: Path) -> Path:
    """Copy the clients without the files that git ignores, which a build writes, and the document that it reads."""
    shutil.copy(ROOT / ".gitignore", folder)
    ignored = shutil.ignore_patterns("_sync", "settings.py", "models.py", "operations.py", "__pycache__")
    shutil.copytree(ROOT / "clients", folder / "clients", ignore=ignored)
    (folder / "docs").mkdir()
    shutil.copy(ROOT / "docs/openapi.json", folder / "docs")
    return folder


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for source in PACKAGES:
        folder = tmp_path_factory.mktemp("wheel")
        checkout = ROOT if source == "." else fresh_checkout(tmp_path_factory.mktemp("checkout"))
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(command, cwd=checkout / source, capture_output=True, check=True)
        found[source] = next(folder.glob("*.whl"))
    return found


def requirements(wheel: Path) -> list[Requirement]:
    """What a wheel asks for without its extras."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        told = Parser().parsestr(archive.read(name).decode())
    needed = map(Requirement, told.get_all("Requires-Dist") or ())
    return [each for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]


def installed(names: set[str]) -> Iterator[Path]:
    """Yield the top level of what packages of this environment consist of, with what they need in their turn."""
    waiting, seen = list(names), set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            package = distribution(name)
            for top in {file.parts[0] for file in package.files or () if file.parts[0] not in ("..", "__pycache__")}:
                yield Path(str(package.locate_file(top)))
            needed = map(Requirement, package.requires or ())
            waiting += [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]


@pytest.fixture(scope="module")
def command(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`tagcast` in an environment that has the client, the command line, and what both of them name."""
    place = tmp_path_factory.mktemp("alone") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place)], check=True)
    packages = next(place.glob("lib/python*/site-packages"))
    ours = [wheels["clients/python"], wheels["clients/cli"]]
    named = {each.name for wheel in ours for each in requirements(wheel)} - OURS
    for top in installed(named):
        if top.exists() and not (packages / top.name).exists():
            (packages / top.name).symlink_to(top)
    pip = [sys.executable, "-m", "pip", "--python", str(place / "bin/python"), "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", *map(str, ours)], check=True, capture_output=True)
    return place / "bin/tagcast"


def run(command: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TAGCAST"))}
    return subprocess.run(
        [str(command), *words], cwd=command.parent, env=environment, capture_output=True, text=True, check=False
    )


def test_a_wheel_brings_its_own_packages_and_nothing_by_a_common_name(wheels: dict[str, Path]) -> None:
    for source, packages in PACKAGES.items():
        with zipfile.ZipFile(wheels[source]) as archive:
            tops = {name.split("/")[0] for name in archive.namelist()}
        assert {top for top in tops if not top.endswith(".dist-info")} == packages


def test_the_client_brings_both_halves(wheels: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheels["clients/python"]) as archive:
        names = set(archive.namelist())
    source = {path.name for path in (ROOT / "clients/python/tagcast_client/_async").glob("*.py")}
    assert {f"tagcast_client/{half}/{name}" for half in ("_async", "_sync") for name in source} <= names
    assert {"tagcast_client/settings.py", "tagcast_client/models.py"} <= names


def test_the_command_line_asks_for_the_client_and_typer_alone(wheels: dict[str, Path]) -> None:
    assert {each.name for each in requirements(wheels["clients/cli"])} == {"tagcast-client", "typer"}
    assert {each.name for each in requirements(wheels["clients/python"])} == {"httpx"}


def test_the_command_line_runs_without_the_stack(command: Path) -> None:
    absent = "import importlib.util as u; print([n for n in ('boto3', 'tagcast', 'local', 'jinja2') if u.find_spec(n)])"
    python = subprocess.run([command.parent / "python", "-I", "-c", absent], capture_output=True, text=True, check=True)
    assert python.stdout.strip() == "[]"
    assert "subscribe" in run(command, "--help").stdout
    assert run(command, "--version").stdout.startswith("tagcast ")
    nobody = run(command, "--url", "http://127.0.0.1:1", "topic", "list")
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert "no response from http://127.0.0.1:1" in nobody.stderr


def test_the_command_line_alone_speaks_to_a_service(command: Path) -> None:
    with fake_api() as api:
        api.teach("GET /health", {"status": "ok", "version": "0.1.0"})
        api.teach("GET /topics?limit=50", {"topics": [{"name": "fruit", "ordering": "none"}], "next_cursor": None})
        assert "0.1.0" in run(command, "--url", api.url, "health").stdout
        assert "fruit" in run(command, "--url", api.url, "topic", "list").stdout


@pytest.mark.parametrize(
    ("words", "package"),
    [
        (["doctor", "--stack", "shop"], "boto3"),
        (["cmq-key", "list"], "boto3"),
        (["cmq-key", "create", "--topic", "a"], "tagcast_aws"),
        (["smoke"], "boto3"),
        (["console"], "local"),
        (["report", "--archive", "s3://bucket"], "glue_jobs"),
        (["audit", "--url", "https://abc.execute-api.eu-west-1.amazonaws.com"], "boto3"),
    ],
)
def test_a_command_that_needs_more_says_in_a_sentence_what(command: Path, words: list[str], package: str) -> None:
    refused = run(command, *words)

    assert refused.returncode == 1
    assert refused.stderr.startswith(f"error: this command needs {package}, which is not installed. ")
    assert len(refused.stderr.splitlines()) == 1

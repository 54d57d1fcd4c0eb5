"""Every command of `make help`, every `python -m …` of a document and every benchmark is started, in a short form."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.benchmarks.__main__ import BENCHMARKS
from tests.running_stack import ROOT, wait_until

MINUTE_S = 60
TESTS = ROOT / "tests"
LOCKS = ("requirements.lock", "requirements-test.lock", "requirements-spark.lock", "requirements-s3a.lock")
INSTALLED = (*LOCKS, "pyproject.toml", "clients/cli/pyproject.toml")


@dataclass(frozen=True)
class Form:
    """A command with arguments that make it short.

    It ends well by itself, or is interrupted once it printed *until*. One that prints *result*, a pattern, may fail
    behind it: for a budget that it does not reach beside other work, an archive that has nothing, a service that knows
    nothing. *in_clone* writes files of the repository.
    """

    short: str
    nightly: bool = False
    until: str = ""
    result: str = ""
    in_clone: bool = False


def benchmark(name: str, arguments: str = "", *, nightly: bool = True, result: str = "") -> dict[str, Form]:
    module = f"python -m tests.benchmarks.{name}"
    return {module: Form(f"{module} {arguments}", nightly, result=result)}


FORMS = {
    "make help": Form("make help"),
    "make install": Form("make install"),
    "make spark": Form("make spark"),
    "make chromium": Form("make chromium"),
    "make run": Form("make run PORT=0 CONSOLE_PORT=0 DATA={folder}/data", True, "http://"),
    "make worst-day": Form("make worst-day PORT=0 CONSOLE_PORT=0", True, "was played in"),
    "make demo": Form("make demo", True),
    "make pictures": Form("make pictures FOLDER={folder}/pictures", True),
    "make nightly": Form("make nightly TESTS=tests/unit/test_row_size.py ONLY=idle_bill", True),
    "make second-opinion": Form("make second-opinion TESTS=tests/second_opinion/test_requests.py", True),
    "make bench": Form("make bench ONLY=idle_bill", True),
    "make twin": Form("make twin CELL_SECONDS=0.1 SUBSCRIPTIONS=1 WIDE=10", True),
    "make simulate": Form("make simulate RUNS=2", True),
    "make simulate-aws": Form("make simulate-aws RUNS=1", True),
    "make digests": Form("make digests", True),
    "make mutate": Form(
        "make mutate SAMPLE=2 ONLY=tagcast.filters.routing_key SUITE=tests/unit/test_routing_key.py",
        True,
        result="2 of 2",
    ),
    "make fuzz": Form("make fuzz SECONDS=2", True),
    "make permissions": Form("make permissions", True),
    "make jobs": Form("make jobs", True, in_clone=True),
    "make format": Form("make format", True, in_clone=True),
    "make docs": Form("make docs", True, in_clone=True),
    "make clean": Form("make clean", True, in_clone=True),
    "make lock": Form("make lock", True, in_clone=True),
    "make audit-dependencies": Form("make audit-dependencies", True, result="pip_audit|vulnerabilit", in_clone=True),
    "make python313": Form("make python313 TESTS=tests/unit/test_tags.py", True, in_clone=True),
    "make sam-validate": Form("make sam-validate", True, in_clone=True),
    "python -m local": Form("python -m local --port 0 --data {folder}/data", True, "http://"),
    "python -m glue_jobs.audit": Form(
        "python -m glue_jobs.audit --archive {folder} --date 2026-11-20", True, result='"job": "audit"'
    ),
    "python -m tagcast_aws.api": Form("python -m tagcast_aws.api"),
    "python -m tests.benchmarks": Form("python -m tests.benchmarks idle_bill"),
    "python -m tests.e2e.killing": Form("python -m tests.e2e.killing --seconds 5", True),
    "python -m tests.e2e.killing_members": Form("python -m tests.e2e.killing_members --messages 100", True),
    "python -m tests.event_patterns": Form("python -m tests.event_patterns make 10 7"),
    "python -m tests.mutation": Form(
        "python -m tests.mutation --sample 2 --only tagcast.filters.routing_key --suite tests/unit/test_routing_key.py",
        True,
        result="2 of 2",
    ),
    "python -m tests.simulation.digests": Form("python -m tests.simulation.digests --jobs 2", True),
    "python -m tests.simulation": Form("python -m tests.simulation --seed 7"),
    "python -m tests.unit.api.example_story": Form("python -m tests.unit.api.example_story"),
    **benchmark("case_bills", "--messages 4"),
    **benchmark("cold_import", "1", result="median of 1 fresh"),
    **benchmark("console", "20", result="first page"),
    **benchmark("filters", "single"),
    **benchmark("idle_bill", nightly=False),
    **benchmark("memory", "--minutes 0.6 --warm-up 0.3", result="messages after the warm-up"),
    **benchmark("pull_calls"),
    **benchmark("push", result="the slowest alone takes"),
    **benchmark("push_memory"),
    **benchmark("twin", "--seconds 0.1"),
    **benchmark("twinning.orders", nightly=False),
}
ELSEWHERE = {"make test": "e2e/test_fresh_clone.py::test_the_second_command_passes"}
"""Commands that another test starts."""


def documented() -> Iterator[str]:
    for name in re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE):
        yield f"make {name}"
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        for module in re.findall(r"\bpython -m ([a-zA-Z_][\w.]*\w)", (ROOT / name).read_text()):
            yield f"python -m {module}"
    for name in BENCHMARKS:
        yield f"python -m tests.benchmarks.{name}"


def test_every_command_that_is_documented_has_a_short_form() -> None:
    assert sorted({*documented()} - FORMS.keys() - ELSEWHERE.keys()) == []


def test_every_test_that_starts_a_command_elsewhere_is_there() -> None:
    for test in ELSEWHERE.values():
        path, _, name = test.partition("::")
        assert f"def {name}(" in (TESTS / path).read_text(), test


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with the environment of this folder, in which a command may write what it likes."""
    folder = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    for name in INSTALLED:  # Older than the environment, so that nothing is installed into it from here.
        os.utime(folder / name, (0, 0))
    (folder / ".venv").symlink_to(Path(sys.prefix))
    return folder


@pytest.mark.e2e
@pytest.mark.timeout(30 * MINUTE_S)
@pytest.mark.parametrize(
    "form",
    [pytest.param(form, id=name, marks=[pytest.mark.nightly] if form.nightly else []) for name, form in FORMS.items()],
)
def test_a_command_starts(form: Form, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    place = request.getfixturevalue("clone") if form.in_clone else ROOT
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = shlex.split(form.short.format(folder=tmp_path))
    printed = tmp_path / "printed.txt"
    with printed.open("wb") as output:
        running = subprocess.Popen(
            command, cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
    try:
        if form.until:
            assert wait_until(lambda: form.until in printed.read_text() or running.poll() is not None, 5 * MINUTE_S)
            assert running.poll() is None, printed.read_text()
            os.killpg(running.pid, signal.SIGINT)
            running.wait(MINUTE_S)
        else:
            running.wait()
            has_result = bool(form.result) and re.search(form.result, printed.read_text()) is not None
            assert has_result or running.returncode == 0, printed.read_text()[-4000:]
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    assert "Traceback" not in printed.read_text()

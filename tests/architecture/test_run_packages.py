"""`make run` installs fewer packages than the tests: all that the service on this machine imports, as tested."""

import ast
import re
from collections.abc import Iterator, Sequence
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tests.architecture.test_documents import ROOT
from tests.architecture.test_job_packages import locked

STARTED = ("local", "functions", "layers/tag_matching/python", "clients/cli", "clients/python/tagcast_client")
OPTIONAL = {"tagcast_client/pytest_plugin.py": {"pytest"}, "tagcast_client/tracing.py": {"opentelemetry"}}


def imported(module: Path) -> Iterator[str]:
    """Yield the packages that a module imports, also within its functions, but not only for the checker of types."""
    nodes: list[ast.AST] = [ast.parse(module.read_text())]
    for node in nodes:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        nodes += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[0] for each in node.names)
        if isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize(
    ("roots", "locks"),
    [(STARTED, ("requirements.lock",)), (("glue_jobs",), ("requirements.lock", "requirements-spark.lock"))],
    ids=["make run", "make spark"],
)
def test_a_command_installs_what_its_programs_import(roots: Sequence[str], locks: Sequence[str]) -> None:
    installed, of_package = set[str]().union(*(locked(ROOT / lock) for lock in locks)), packages_distributions()
    missing = {}
    for module in (module for root in roots for module in (ROOT / root).rglob("*.py")):
        allowed = OPTIONAL.get("/".join(module.parts[-2:]), set[str]())
        for name in {*imported(module)} - allowed:
            names = {re.sub(r"[._]", "-", each.lower()) for each in of_package.get(name, ())}
            if names and not any(each in installed or each.startswith("tagcast") for each in names):
                missing[f"{module.relative_to(ROOT)}: {name}"] = names

    assert missing == {}


def test_make_run_installs_what_the_tests_test() -> None:
    installed, tested = locked(ROOT / "requirements.lock"), locked(ROOT / "requirements-test.lock")

    assert len(installed) < len(tested) / 1.5
    assert {name: each for name, each in installed.items() if each != tested.get(name)} == {}

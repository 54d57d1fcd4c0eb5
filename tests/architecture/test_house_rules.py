import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINES_MAX, FUNCTION_LINES_MAX = 250, 50
EMPTY_WORDS = {"data", "info", "manager", "util", "utils", "helper", "helpers", "common", "misc", "process"}
TRACKED = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
    cwd=ROOT, capture_output=True, text=True, check=True,
).stdout.split()  # fmt: skip
MODULES = [name for name in TRACKED if (ROOT / name).exists()]
PRODUCT = [name for name in MODULES if not name.startswith("tests/")]


@pytest.mark.parametrize("module", PRODUCT)
def test_a_module_can_be_read_in_one_sitting(module: str) -> None:
    assert len((ROOT / module).read_text().splitlines()) <= LINES_MAX


LONG = {
    "local/cli/listen.py": {"listen"},
    "local/cli/subscriptions.py": {"subscribe"},
}
"""Commands, whose signature is their list of options; and the one sequence in which everything is brought up."""


@pytest.mark.parametrize("module", PRODUCT)
def test_a_function_can_be_seen_as_a_whole(module: str) -> None:
    tree = ast.parse((ROOT / module).read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    long = {each.name for each in functions if (each.end_lineno or 0) - each.lineno >= FUNCTION_LINES_MAX}

    assert long == LONG.get(module, set())


@pytest.mark.parametrize("module", PRODUCT)
def test_modules_and_classes_are_named_by_what_they_hold(module: str) -> None:
    assert Path(module).stem not in EMPTY_WORDS
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        if isinstance(node, ast.ClassDef):
            assert not node.name.endswith(("Manager", "Helper", "Util", "Utils"))


@pytest.mark.parametrize("module", [name for name in MODULES if name.startswith("tests/")])
def test_fakes_instead_of_patches(module: str) -> None:
    for node in ast.walk(ast.parse((ROOT / module).read_text())):
        if isinstance(node, ast.ImportFrom | ast.Import):
            names = {alias.name for alias in node.names} | {getattr(node, "module", "") or ""}
            assert not names & {"unittest.mock", "mock"}


@pytest.mark.parametrize("module", [name for name in PRODUCT if name.startswith("functions/")])
def test_a_handler_defines_no_class(module: str) -> None:
    nodes = ast.walk(ast.parse((ROOT / module).read_text()))
    assert not [node for node in nodes if isinstance(node, ast.ClassDef)]


CORE = [name for name in PRODUCT if "/tagcast/" in name]


@pytest.mark.parametrize("module", CORE)
def test_a_loop_of_the_core_without_a_condition_says_why_it_ends(module: str) -> None:
    lines = (ROOT / module).read_text().splitlines()
    endless = [node for node in ast.walk(ast.parse("\n".join(lines))) if isinstance(node, ast.While)]
    endless = [node for node in endless if isinstance(node.test, ast.Constant)]

    assert not [line for node in endless if "# It ends: " not in (line := lines[node.lineno - 1])]

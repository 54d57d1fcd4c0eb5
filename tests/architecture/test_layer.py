"""The layer as it is built: with bytecode that no cold start checks or makes, without what it does not import."""

import ast
import marshal
import shutil
import subprocess
import sys
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path

import pytest

LAYER = Path(__file__).resolve().parents[2] / "layers" / "tag_matching" / "python"
UNCHECKED_HASH = (1).to_bytes(4, "little")
"""The flags of a .pyc that is taken as it is (PEP 552)."""
MODULES = {"aws-lambda-powertools": "aws_lambda_powertools", "pynacl": "nacl"}


def bytecode(target: Path) -> Path:
    """Make the bytecode as `sam build` does; on AWS it is of Python 3.13, here of the one that runs."""
    for name in ("tagcast", "tagcast_aws"):
        shutil.copytree(LAYER / name, target / "python" / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = ["make", "--silent", "bytecode", f"ARTIFACTS_DIR={target}", f"FUNCTIONS_PYTHON={sys.executable}"]
    subprocess.run(command, cwd=LAYER, check=True)
    return target


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bytecode(tmp_path_factory.mktemp("layer"))


def test_every_module_has_bytecode_that_is_taken_as_it_is(built: Path) -> None:
    sources = sorted((built / "python").rglob("*.py"))
    assert len(sources) > 200
    for source in sources:
        content = Path(cache_from_source(str(source))).read_bytes()
        assert (content[:4], content[4:8]) == (MAGIC_NUMBER, UNCHECKED_HASH), source
        assert marshal.loads(content[16:]).co_filename == f"/opt/{source.relative_to(built)}"


def test_two_builds_are_the_same_to_the_byte(built: Path, tmp_path: Path) -> None:
    again = bytecode(tmp_path / "again")
    files = sorted(path.relative_to(built) for path in built.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(again) for path in again.rglob("*") if path.is_file())
    assert [name for name in files if (built / name).read_bytes() != (again / name).read_bytes()] == []


def test_another_python_than_that_of_the_functions_builds_no_layer(tmp_path: Path) -> None:
    command = ["make", "build-TagMatchingLayer", f"ARTIFACTS_DIR={tmp_path}", "FUNCTIONS_PYTHON=/bin/false"]
    ran = subprocess.run(command, cwd=LAYER, capture_output=True, text=True, check=False)
    assert ran.returncode != 0
    assert "The layer needs Python 3.13, on which the functions run." in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_layer_has_no_dependency_that_none_of_its_modules_imports() -> None:
    imported = {
        name.split(".")[0]
        for source in LAYER.rglob("*.py")
        for node in ast.walk(ast.parse(source.read_text()))
        for name in (
            [each.name for each in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    wanted = (LAYER.parent / "requirements.in").read_text().split()
    assert [name for name in wanted if MODULES.get(name, name) not in imported] == []

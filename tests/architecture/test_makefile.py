"""What `make` does before a command, without doing it."""

import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.architecture.test_documents import ROOT

BUILT = "clients/python/tagcast_client/_sync/client.py"
LOCKS = ("requirements.lock", "requirements-test.lock")
SOURCES = (*LOCKS, "pyproject.toml", "clients/cli/pyproject.toml", "docs/openapi.json")
PACKAGES = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A checkout whose environment was made and filled, and is of this Python."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in (*SOURCES, ".venv/.installed", BUILT):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in (".venv/.installed", BUILT):
        time.sleep(0.01)
        (tmp_path / name).touch()
    (tmp_path / ".venv" / PACKAGES).mkdir(parents=True)
    (tmp_path / ".venv/bin").mkdir()
    (tmp_path / ".venv/bin/python").symlink_to(sys.executable)
    (tmp_path / ".venv/pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    return tmp_path


def commands_of(checkout: Path, *settings: str, command: str = "run") -> str:
    call = ["make", "--no-print-directory", "--dry-run", command, f"PYTHON={sys.executable}", *settings]
    return subprocess.run(call, cwd=checkout, capture_output=True, text=True, check=True).stdout


def test_an_environment_that_is_made_is_used_at_once(installed: Path) -> None:
    assert commands_of(installed).split()[:4] == ["exec", ".venv/bin/python", "-m", "local"]


def test_only_the_tests_install_their_tools(installed: Path) -> None:
    assert "requirements-test.lock" not in commands_of(installed)
    assert "-r requirements-test.lock" in commands_of(installed, command="format")


def test_a_folder_may_have_a_blank_in_its_name(installed: Path) -> None:
    words = shlex.split(commands_of(installed, "DATA=my data"))
    assert words[words.index("--data") + 1] == "my data"


@pytest.mark.parametrize("upgrade", ["its Python is gone", "its Python is another one"])
def test_an_environment_that_an_upgrade_of_python_broke_is_made_again(installed: Path, upgrade: str) -> None:
    if upgrade == "its Python is gone":
        (installed / ".venv/bin/python").unlink()
        (installed / ".venv/bin/python").symlink_to("/nowhere/python3.11")
    else:
        (installed / ".venv" / PACKAGES).rename(installed / ".venv/lib/of-another")
    said = commands_of(installed)
    assert f"{sys.executable} -m venv --clear .venv" in said
    assert "-m pip install" in said

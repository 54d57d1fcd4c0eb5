"""What CONTRIBUTING says that mypy names when a member is added is what mypy names."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.test_documents import ROOT, TRACKED, text_of

SETTINGS = "layers/tag_matching/python/tagcast/subscription_settings.py"
CACHE = ".mypy_cache"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The sources in a folder of their own, with what mypy knows of them by now."""
    for name in TRACKED:
        if name.endswith((".py", ".typed", ".toml")) and (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / name)
    if (ROOT / CACHE).is_dir():
        shutil.copytree(ROOT / CACHE, tmp_path / CACHE)
    return tmp_path


def named_by_mypy(folder: Path) -> set[str]:
    """Return the functions of the product in which mypy finds a fault, as `module:function`."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "layers", "functions", "local"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = set()
    for path, line in re.findall(r"^([\w/]+\.py):(\d+): error:", ran.stdout, re.MULTILINE):
        before = (folder / path).read_text().splitlines()[: int(line)]
        functions = [match[1] for each in before if (match := re.match(r"\s*(?:async )?def (\w+)", each))]
        found.add(
            f"{path.removeprefix('layers/tag_matching/python/').removesuffix('.py').replace('/', '.')}:{functions[-1]}"
        )
    assert found, ran.stdout + ran.stderr
    return found


def add_member(folder: Path, enum: str) -> None:
    text = (folder / SETTINGS).read_text()
    changed = re.sub(
        rf'(class {enum}\(.*?\n(?:    """.*?"""\n)?\n?)', r'\1    PLANTED = "planted"\n', text, count=1, flags=re.DOTALL
    )
    assert changed != text
    (folder / SETTINGS).write_text(changed)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_mypy_names_the_places_of_a_new_content_format(copied: Path) -> None:
    add_member(copied, "ContentFormat")
    recipe = text_of(".github/CONTRIBUTING.md").split("### A new content format")[1].split("### ")[0]

    named = named_by_mypy(copied)

    assert "mypy names the two places" in recipe
    places = {"tagcast.pushing.content_formats", "tagcast_aws.cmq.settings"}
    assert {each.partition(":")[0] for each in named} == places
    assert {each.partition(":")[2] for each in named} == {"format_of", "format_word"}


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_mypy_names_places_that_tell_protocols_apart(copied: Path) -> None:
    add_member(copied, "Protocol")
    recipe = text_of(".github/CONTRIBUTING.md").split("### A new endpoint protocol")[1].split("### ")[0]
    told = re.findall(r"`(tagcast[\w.]+)`", recipe.split("mypy then names")[1].split("\n2.")[0])

    assert {each.partition(":")[0] for each in named_by_mypy(copied)} == set(told)

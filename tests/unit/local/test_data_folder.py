"""The folder of a local stack: what a fresh start forgets."""

from pathlib import Path

import pytest

from local.stack.data_folder import DataFolder, FolderInUseError


def write_files(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("x")


def folders_in(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir() if each.is_dir()}


def take(path: Path, *, fresh: bool) -> None:
    folder = DataFolder(path)
    folder.take(fresh)
    folder.release()


def test_a_fresh_start_forgets_the_engine_s_state_and_the_reports_and_keeps_what_is_not_its_own(tmp_path: Path) -> None:
    take(tmp_path, fresh=False)
    write_files(tmp_path, "engine/tables", "reports/audit/page.html", "mine/notes")
    take(tmp_path, fresh=False)
    assert folders_in(tmp_path) == {"engine", "reports", "mine"}
    take(tmp_path, fresh=True)
    assert folders_in(tmp_path) == {"mine"}


def test_a_fresh_start_forgets_nothing_where_no_stack_has_run(tmp_path: Path) -> None:
    write_files(tmp_path, "reports/2026.html")
    take(tmp_path, fresh=True)
    assert folders_in(tmp_path) == {"reports"}


def test_a_folder_that_others_use_is_not_closed_to_them(tmp_path: Path) -> None:
    """For example DATA=/tmp: for the other users of the machine, nothing that needs /tmp would run."""
    write_files(tmp_path, "theirs/notes")
    tmp_path.chmod(0o1777)
    with pytest.raises(FolderInUseError, match="other users may read"):
        take(tmp_path, fresh=False)
    assert tmp_path.stat().st_mode & 0o7777 == 0o1777
    assert folders_in(tmp_path) == {"theirs"}


def test_a_new_folder_and_one_that_was_used_are_closed_to_others(tmp_path: Path) -> None:
    for _ in range(2):
        tmp_path.chmod(0o755)
        take(tmp_path, fresh=False)
        assert tmp_path.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("fresh", [False, True])
def test_an_engine_of_somebody_else_is_neither_used_nor_forgotten(tmp_path: Path, fresh: bool) -> None:
    write_files(tmp_path, "engine/main.c")
    tmp_path.chmod(0o755)
    with pytest.raises(FolderInUseError, match="engine is not the state of a local stack"):
        take(tmp_path, fresh=fresh)
    assert folders_in(tmp_path) == {"engine"}
    assert tmp_path.stat().st_mode & 0o777 == 0o755

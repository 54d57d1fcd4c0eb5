"""The journal of the engine: what is read of it after a kill at any moment."""

import asyncio
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from local.engine.checksums import DamageError
from local.engine.journal import STATE, Journal


def written(folder: Path, *lines: list[Any]) -> Journal:
    """A journal of a process that was killed after these writes, each of some changes."""
    journal = Journal(folder)
    list(journal.read()[1])
    for changes in lines:
        for change in changes:
            journal.add("is", change)
        journal.write()
    return journal


def read(folder: Path) -> tuple[Any, list[Any]]:
    state, changes = Journal(folder).read()
    return state, [change[1] for change in changes]


def test_what_was_written_is_read_in_its_order_by_every_later_process(tmp_path: Path) -> None:
    written(tmp_path, [1, 2], [], [3])
    written(tmp_path, ["ü\n\ud800"])
    assert read(tmp_path) == (None, [1, 2, 3, "ü\n\ud800"])
    assert read(tmp_path) == (None, [1, 2, 3, "ü\n\ud800"])


def test_what_was_not_written_is_not_read(tmp_path: Path) -> None:
    written(tmp_path, [1]).add("is", 2)
    assert read(tmp_path) == (None, [1])


def test_of_a_torn_write_nothing_is_read_and_of_those_before_and_after_everything(tmp_path: Path) -> None:
    written(tmp_path / "whole", [1], [2, 3])
    [log] = (tmp_path / "whole").iterdir()
    text = log.read_bytes()
    for length in range(len(text)):
        (tmp_path / "torn").mkdir()
        (tmp_path / "torn" / log.name).write_bytes(text[:length])
        written(tmp_path / "torn", [4])
        assert read(tmp_path / "torn") == (None, [1, 4] if length >= text.index(b"\n") + 1 else [4])
        shutil.rmtree(tmp_path / "torn")


async def renewed_before(journal: Journal, state: Any) -> None:
    await journal.renew(lambda: state)
    journal.add("is", 3)
    journal.write()


def test_a_renewed_journal_has_the_state_and_what_came_after_it(tmp_path: Path) -> None:
    asyncio.run(renewed_before(written(tmp_path, [1], [2]), {"sum": 3}))
    assert read(tmp_path) == ({"sum": 3}, [3])
    assert len(list(tmp_path.glob("*.log"))) == 2


def test_a_change_that_waits_to_be_written_is_part_of_the_state_and_not_of_the_journal_after_it(tmp_path: Path) -> None:
    journal = written(tmp_path, [1])
    journal.add("is", 2)
    asyncio.run(renewed_before(journal, [1, 2]))
    assert read(tmp_path) == ([1, 2], [3])


@pytest.mark.parametrize("draft", [None, b"", b'{"journal": 2, "sta'])
def test_a_kill_while_the_state_is_written_costs_nothing(
    tmp_path: Path, draft: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = written(tmp_path, [1], [2])

    def killed(path: Path, *parts: bytes) -> None:
        if draft is not None:
            (tmp_path / f"{STATE}.draft").write_bytes(draft)
        raise OSError("no more")

    monkeypatch.setattr("local.engine.journal.replace_file", killed)
    with pytest.raises(OSError, match="no more"):
        asyncio.run(renewed_before(journal, [1, 2]))
    journal.add("is", 3)
    journal.write()
    assert read(tmp_path) == (None, [1, 2, 3])


def test_a_kill_before_old_files_are_removed_makes_nothing_twice(tmp_path: Path) -> None:
    journal = written(tmp_path, [1], [2])
    journal._forget_before = lambda number: None  # type: ignore[method-assign]
    asyncio.run(renewed_before(journal, [1, 2]))
    assert read(tmp_path) == ([1, 2], [3])


async def test_a_journal_is_renewed_when_it_is_longer_than_the_state_and_not_before(
    tmp_path: Path,
) -> None:
    states: list[int] = []

    def state() -> list[str]:
        states.append(len(states))
        return ["x" * 1000]

    journal = Journal(tmp_path, grown_bytes=100)
    list(journal.read()[1])
    for text, times in (("x", 0), ("x" * 200, 1), ("x" * 500, 1), ("x" * 1000, 2)):
        journal.add("is", text)
        journal.write()
        for _ in range(3):
            await journal.renew_if_grown(state)
        assert len(states) == times


def logs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def test_every_bit_of_what_was_written_is_looked_at(tmp_path: Path) -> None:
    written(tmp_path, [1], [2, 3], ["body"])
    [log] = logs(tmp_path)
    whole = log.read_bytes()
    for place in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        log.write_bytes(changed)
        with pytest.raises(DamageError, match=rf"{log.name} is damaged: line [123] \(from byte \d+ on\)"):
            read(tmp_path)
        assert logs(tmp_path) == [log]
        assert log.read_bytes() == changed


def test_a_line_that_is_missing_is_noticed_wherever_it_was_but_for_the_last(tmp_path: Path) -> None:
    written(tmp_path, [1], [2])
    written(tmp_path, [3], [4])
    asyncio.run(renewed_before(written(tmp_path, [5]), "state"))
    written(tmp_path, [6], [7])
    for log in logs(tmp_path):
        whole = log.read_bytes()
        lines = whole.splitlines(keepends=True)
        for place in range(len(lines)):
            log.write_bytes(b"".join(lines[:place] + lines[place + 1 :]))
            if (log, place) == (logs(tmp_path)[-1], len(lines) - 1):
                assert read(tmp_path) == ("state", [3, 6])
                logs(tmp_path)[-1].unlink()
            else:
                with pytest.raises(DamageError):
                    read(tmp_path)
        log.write_bytes(whole)
    assert read(tmp_path) == ("state", [3, 6, 7])


@pytest.mark.parametrize("place", range(3))
def test_a_file_that_is_cut_or_missing_before_others_is_damage_and_no_torn_write(tmp_path: Path, place: int) -> None:
    for number in range(4):
        written(tmp_path, [f"{number} and more"])
    log = logs(tmp_path)[place]
    text = log.read_bytes()
    log.write_bytes(text[:-9])
    with pytest.raises(DamageError):
        read(tmp_path)
    log.unlink()
    with pytest.raises(DamageError):
        read(tmp_path)


def test_a_page_of_zeros_is_damage_at_the_end_too(tmp_path: Path) -> None:
    written(tmp_path, ["x" * 5_000], ["y" * 5_000])
    [log] = logs(tmp_path)
    whole = log.read_bytes()
    for changed in (whole[:1_000] + bytes(4_096) + whole[5_096:], whole[:-4_096] + bytes(4_096), whole + bytes(4_096)):
        log.write_bytes(changed)
        with pytest.raises(DamageError):
            read(tmp_path)


def test_a_state_that_is_cut_changed_or_missing_is_named(tmp_path: Path) -> None:
    asyncio.run(renewed_before(written(tmp_path, [1]), {"body": "secret"}))
    path = tmp_path / STATE
    whole = path.read_bytes()
    for changed in (b"", whole[: len(whole) // 2], whole[:-1], whole.replace(b"secret", b"sdcret")):
        path.write_bytes(changed)
        with pytest.raises(DamageError, match=rf"{STATE} is damaged: its {len(changed)} bytes .* FRESH=1"):
            read(tmp_path)
    path.unlink()
    with pytest.raises(DamageError, match=r"log is damaged: line 1"):
        read(tmp_path)


def test_what_the_remedy_keeps_is_what_was_written_before_the_damage(tmp_path: Path) -> None:
    written(tmp_path, [1], [2], [3])
    written(tmp_path, [4])
    log = logs(tmp_path)[0]
    log.write_bytes(log.read_bytes().replace(b'"is",2', b'"is",9'))
    with pytest.raises(DamageError) as told:
        read(tmp_path)
    subprocess.run(["/bin/sh", "-c", str(told.value).rpartition("byte: ")[2]], check=True)
    assert read(tmp_path) == (None, [1])

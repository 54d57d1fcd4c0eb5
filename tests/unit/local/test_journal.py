"""The journal of the engine: what is read of it after a kill at any moment."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

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
def test_a_kill_while_the_state_is_written_costs_nothing(tmp_path: Path, draft: bytes | None) -> None:
    journal = written(tmp_path, [1], [2])

    def killed(text: bytes) -> None:
        if draft is not None:
            (tmp_path / f"{STATE}.draft").write_bytes(draft)
        raise OSError("no more")

    journal._replace_state = killed  # type: ignore[method-assign]
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


def test_a_journal_is_renewed_when_it_is_longer_than_the_state_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local.engine.journal.LOOK_S", 0.001)
    states: list[int] = []

    def state() -> list[str]:
        states.append(len(states))
        return ["x" * 1000]

    async def play() -> None:
        journal = Journal(tmp_path, grown_bytes=100)
        list(journal.read()[1])
        renewing = asyncio.ensure_future(journal.renew_when_grown(state))
        for text, times in (("x", 0), ("x" * 200, 1), ("x" * 500, 1), ("x" * 1000, 2)):
            journal.add("is", text)
            journal.write()
            await asyncio.sleep(0.1)
            assert len(states) == times
        renewing.cancel()

    asyncio.run(play())

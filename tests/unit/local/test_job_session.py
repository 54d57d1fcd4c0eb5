"""The program that a stack keeps for jobs, in place of Spark a small one: it says who it is and what it was asked."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tagcast_cli import SPARK_STARTS
from tagcast_cli.job_run import Archive, JobError, Result, StackJobs

from local.stack.job_session import WAITING, JobSession
from tests.running_stack import wait_until

SMALL = """
import json, os, sys, time
for line in sys.stdin:
    words = json.loads(line)
    print("progress: " + words[-1], file=sys.stderr, flush=True)
    if words[-1] == "broken":
        sys.exit("no such day")
    if words[-1] == "refused":
        print("usage: audit [-h]\\naudit: error: 'x' is no day", file=sys.stderr, flush=True)
        sys.exit(2)
    while words[-1] == "slow":
        time.sleep(0.02)
    for job in ["compact"] * ("--then" in words) + [words[-1] if len(words) == 4 else words[0]]:
        print(json.dumps({"job": job, "ok": True, "pid": os.getpid(), "words": words}))
    print(json.dumps({"ended": 0}), flush=True)
"""
COMPACTION = ("compact", "--from", "2026-11-01", "--to", "2026-11-02")


class Asking:
    def __init__(self, session: JobSession, port: int) -> None:
        self._session = {"port": port, "token": session.token}
        self.said: list[str] = []

    async def __call__(self, job: str, *first: str, jobs: StackJobs | None = None) -> Result:
        place = Archive("s3://kept", session=self._session)
        jobs = jobs or StackJobs()
        return await asyncio.to_thread(jobs.run, job, place, [job], self.said.append, first=first)


@asynccontextmanager
async def asking(**bounds: float) -> AsyncIterator[Asking]:
    session = JobSession({}, (sys.executable, "-c", SMALL), **bounds)
    try:
        yield Asking(session, await session.listen())
    finally:
        await session.stop()


async def test_one_program_takes_jobs_one_after_another() -> None:
    async with asking() as ask:
        ends = await asyncio.gather(ask("audit"), ask("delivery_report"))
        assert {end.summary["job"] for end in ends} == {"audit", "delivery_report"}
        assert len({end.summary["pid"] for end in ends}) == 1
        assert (ask.said.count(SPARK_STARTS), ask.said.count(WAITING)) == (1, 1)


async def test_what_is_to_be_done_before_a_job_is_done_in_the_same_session() -> None:
    async with asking() as ask:
        words = (await ask("audit", *COMPACTION)).summary["words"]
        archive = ["--archive", "s3://kept"]
        assert words == ["compact", *archive, *COMPACTION[1:], "--then", "audit", *archive, "audit"]


async def test_a_program_that_breaks_is_quoted_and_replaced() -> None:
    async with asking() as ask:
        first = (await ask("audit")).summary["pid"]
        with pytest.raises(JobError, match="broken failed: broken broke off:\nprogress: broken\nno such day"):
            await ask("broken")
        with pytest.raises(JobError, match=r"^refused failed: 'x' is no day$"):
            await ask("refused")
        assert (await ask("audit")).summary["pid"] != first


async def test_a_program_that_says_nothing_any_more_is_replaced() -> None:
    async with asking(silent_s_max=0.5) as ask:
        first = (await ask("audit")).summary["pid"]
        with pytest.raises(JobError, match="printed nothing"):
            await ask("slow")
        assert (await ask("audit")).summary["pid"] != first
        assert not _is_alive(first)


async def test_a_job_ends_with_who_asked_for_it() -> None:
    async with asking() as ask:
        first, jobs = (await ask("audit")).summary["pid"], StackJobs()
        slow = asyncio.create_task(ask("slow", jobs=jobs))
        while "slow" not in ask.said:
            await asyncio.sleep(0.01)
        jobs.stop()
        with pytest.raises(JobError, match="slow stopped"):
            await slow
        assert (await ask("audit")).summary["pid"] != first


async def test_a_program_without_jobs_goes_and_others_come() -> None:
    async with asking(idle_s=0.05) as ask:
        first: int = (await ask("audit")).summary["pid"]
        while _is_alive(first):
            await asyncio.sleep(0.01)
        assert (await ask("audit")).summary["pid"] != first


@pytest.mark.parametrize("token", ["guessed", "schlüssel", "\ud800"])
async def test_without_the_token_nothing_is_run(token: str) -> None:
    async with asking() as ask:
        faults: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        ask._session["token"] = token
        with pytest.raises(JobError, match="closed the connection"):
            await ask("audit")
        assert (ask.said, faults) == ([], [])


def test_a_program_ends_with_its_stack_even_if_that_is_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    stack = subprocess.Popen([sys.executable, "-c", KILLED, str(pids), SMALL], env={**os.environ, "PYTHONPATH": "."})
    assert wait_until(lambda: pids.exists() and pids.read_text().endswith("\n"))
    stack.kill()
    stack.wait()
    assert wait_until(lambda: not _is_alive(int(pids.read_text())))


KILLED = """
import asyncio, pathlib, sys
from local.stack.job_session import Lines
async def main():
    lines = await Lines.of((sys.executable, "-c", sys.argv[2]), {})
    pathlib.Path(sys.argv[1]).write_text(f"{lines.process.pid}\\n")
    await asyncio.sleep(600)
asyncio.run(main())
"""


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()

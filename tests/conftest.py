"""What all tests share: no keys to AWS, one stack, and an order in which several workers are done soon."""

import asyncio
import gc
import inspect
import os
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from local.engine.long_lived import collect_rarely
from tests.running_stack import TIME_SCALE, RunningStack, start_stack

# No test may reach AWS: every session of boto3 gets keys that open nothing.
os.environ.update(
    AWS_ACCESS_KEY_ID="testing",
    AWS_SECRET_ACCESS_KEY="testing",
    AWS_DEFAULT_REGION="us-east-1",
    AWS_EC2_METADATA_DISABLED="true",
    POWERTOOLS_TRACE_DISABLED="true",
)
for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
    os.environ.pop(name, None)

# Examples are judged by what they show, not by how long a busy machine takes for them.
settings.register_profile("default", deadline=None)
settings.load_profile("default")

STACK = (
    "tests/cmq/test_tencents_client.py",
    "tests/e2e/test_archive.py",
    "tests/e2e/test_client_readme.py",
    "tests/e2e/test_kept_changes.py",
    "tests/e2e/test_limits.py",
    "tests/e2e/test_local_stack.py",
    "tests/e2e/test_permissions.py::test_the_relay",
    "tests/e2e/test_pull_groups.py",
    "tests/e2e/test_readme.py",
    "tests/e2e/test_secrets.py",
    "tests/scenarios/",
)
"""What uses the one stack of a session, or little besides."""
FIRST = (
    "spark",
    "stack",
    "tests/e2e/test_permissions.py",
    "tests/unit/test_tags.py",  # Each worker gets two groups at once: a short one waits behind Spark.
    "tests/e2e/test_killing.py",
    "tests/e2e/test_overload.py",
    "tests/e2e/test_smoke.py",
    "tests/console/test_console_in_a_browser.py",
    "tests/simulation/test_simulation.py",
    "tests/mutation/test_mutation.py",
    "tests/e2e/test_sam_local.py",
)
"""What takes long begins first, and most of it waits: the rest is computed meanwhile."""

SPARK_TIMEOUT_S = 400
STARTED: list[RunningStack] = []


def group_of(nodeid: str) -> str:
    """What keeps tests together on one worker: the dear thing that they share, or else their file."""
    file = nodeid.partition("::")[0]
    if file.startswith("tests/spark/"):
        return "spark"
    return "stack" if nodeid.startswith(STACK) else file


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage while modules are loaded, and rarely afterwards: nearly all of their objects stay.

    Otherwise Python takes a quarter of the CPU of most tests to look at these objects again.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        collect_rarely()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long ones first. A job may take long on a busy machine: Spark plans on both processors."""
    ranks = {group: rank for rank, group in enumerate(FIRST)}
    for item in items:
        if group_of(item.nodeid) == "spark" and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SPARK_TIMEOUT_S))
    items.sort(key=lambda item: ranks.get(group_of(item.nodeid), len(FIRST)))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Stop the stack behind its last test: it works while nobody asks, ten times faster than life.

    Garbage that is left complains in the report of the last test, and not on the terminal.
    """
    if nextitem is None:
        gc.collect()
    if nextitem is None or group_of(nextitem.nodeid) != "stack":
        while STARTED:
            running = STARTED.pop()
            assert running.denied() == []
            if running.process.poll() is None:
                running.stop()


class ByGroup(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types.
    """Gives every worker whole groups; pytest-xdist's own mark of a group is lost with pytest 9.2."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an asynchronous test in the event loop that it takes as *loop*, or else in one of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    run = given["loop"].run_until_complete if "loop" in given else asyncio.run
    run(pyfuncitem.obj(**given))
    return True


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name no test by bytes. Compressed bytes contain the time, and all workers must give a test the same name."""
    return argname if isinstance(val, bytes) else None


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByGroup:
    """Schedule by groups, in their order."""
    return ByGroup(config, log)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> RunningStack:
    """One stack for all tests of its group, ten times faster than life."""
    running = start_stack(tmp_path_factory.mktemp("stack") / "data", "--time-scale", f"{TIME_SCALE:g}")
    STARTED.append(running)
    return running

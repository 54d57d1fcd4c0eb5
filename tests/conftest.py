"""What all tests share: no keys to AWS, one stack, and an order in which several workers are done soon."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

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

SHARED = ("stack", "spark")
"""What is dear to make: tests that use the same are done by one worker, so that each is made once."""
FIRST = (
    "stack",
    "tests/e2e/test_permissions.py",
    "spark",
    "tests/e2e/test_killing.py",
    "tests/e2e/test_overload.py",
    "tests/e2e/test_local_stack.py",
    "tests/console/test_console_in_a_browser.py",
    "tests/e2e/test_sam_local.py",
)
"""What takes long begins first, and most of it waits: the rest is computed meanwhile."""


def group_of(item: pytest.Item) -> str:
    """What keeps tests together: what they share, or else their file."""
    used = getattr(item, "fixturenames", ())
    return next((name for name in SHARED if name in used), item.nodeid.partition("::")[0])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give `--dist loadgroup` its groups, the long ones first."""
    ranks = {group: rank for rank, group in enumerate(FIRST)}
    items.sort(key=lambda item: ranks.get(group_of(item), len(FIRST)))
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group_of(item)))


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """One stack for the whole session, ten times faster than life."""
    running = start_stack(tmp_path_factory.mktemp("stack") / "data", "--time-scale", f"{TIME_SCALE:g}")
    yield running
    assert running.denied() == []
    if running.process.poll() is None:
        running.stop()

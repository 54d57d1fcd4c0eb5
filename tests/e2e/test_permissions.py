"""On the running stack every caller has its own role's permissions; what it may not do is refused as on AWS."""

from pathlib import Path

import pytest

from tests.e2e.killing import call
from tests.permissions.report import declared_roles, missing, removals, tell
from tests.permissions.uses import USES, recorded
from tests.running_stack import RunningStack, wait_until

pytestmark = pytest.mark.e2e


@pytest.mark.timeout(300)
def test_no_permission_is_missing_and_none_is_superfluous(tmp_path: Path) -> None:
    chapters = tell(tmp_path, USES)
    assert [name for name, ended_well in chapters.items() if not ended_well] == []

    uses = recorded(USES)

    assert missing(uses) == []
    assert [each for each in removals(declared_roles(), uses) if each.survives] == []


def test_the_relay_may_do_what_its_repairs_ask_of_it(stack: RunningStack) -> None:
    call("PUT", f"{stack.url}/topics/unsent", {})
    call("PUT", f"{stack.url}/topics/unsent/subscriptions/late", {
        "endpoint": {"protocol": "http", "url": "http://127.0.0.1:9/"}, "retry": {"strategy": "BACKOFF_RETRY"},
    })  # fmt: skip
    call("POST", f"{stack.url}/topics/unsent/messages", {"body": "x"})

    def relayed() -> bool:
        return any((use.role, use.action) == ("RelayFunctionRole", "sqs:SendMessage") for use in recorded(USES))

    assert wait_until(relayed)
    assert stack.denied() == []

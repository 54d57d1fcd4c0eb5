"""Whatever the API's document lets through, and whatever it does not, is answered as the document says."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzzing.scenario import OPERATIONS, Scenario

SCENARIOS, STEPS = 16, 12
ASKED: dict[tuple[str, int], int] = {}


@settings(
    max_examples=SCENARIOS,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(st.data())
def test_made_up_requests_are_answered_as_the_document_says_and_leave_no_garbage(data: st.DataObject) -> None:
    Scenario(data, ASKED).play(STEPS)


def test_most_operations_were_led_to_something() -> None:
    successful = {name for name, status in ASKED if status < 300}
    assert len(successful) > len(OPERATIONS) / 2, successful

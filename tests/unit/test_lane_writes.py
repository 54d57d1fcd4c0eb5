"""The attributes that each transition of a lane writes or removes, and those that it expects to be as they were read.

The simulations accept any change that `TRANSITIONS` makes; here stands what it may be.
"""

from tagcast.tables import Update

from tests.simulation.checks.transitions import TRANSITIONS

NEXT, CHECK = "next_attempt_at is_claimed", "wake_at wake_shard"
GENERATION = "state generation"
CLAIM, LENGTH = f"{GENERATION} claim", f"{GENERATION} appended"
PLAN, UNCHANGED = f"{CLAIM} next_attempt_at", f"{CLAIM} appended"
JOINED_BEFORE = (f"state generation appended joined lost_since {NEXT} {CHECK}", f"{PLAN} appended")
STARTED = (f"state generation lost_since {NEXT} {CHECK}", PLAN)
WRITES = {
    "a first round failed": {("", "pk")},
    "a batch joins": {("appended joined", LENGTH), (f"appended joined {CHECK}", LENGTH)},
    "a batch joins, due later": {("appended joined", f"{PLAN} appended")},
    "a batch joins, due sooner": {JOINED_BEFORE},
    "contact is back": {("state", CLAIM)},
    "a late answer": {STARTED},
    "a late success": {STARTED},
    "no answer came": {STARTED},
    "every late answer is written": {("", UNCHANGED)},
    "claim": {(f"claim filling {NEXT} {CHECK}", PLAN)},
    "plan the next attempt": {(f"state planned_for filling {NEXT} {CHECK}", CLAIM)},
    "each waits for itself": {(f"state retry_all_at lost_since filling {NEXT} {CHECK}", UNCHANGED)},
    "each waits, unanswered": {(f"state retry_all_at lost_since filling {NEXT} {CHECK}", UNCHANGED)},
    "contact is lost": {(f"state lost_since filling {NEXT} {CHECK}", CLAIM)},
    "give the claim back": {(f"state planned_for filling {NEXT} {CHECK}", CLAIM)},
    "answer 410": {(f"state generation planned_for filling {NEXT} {CHECK}", CLAIM)},
    "the backlog is empty": {("", UNCHANGED), (CHECK, CLAIM)},
    "continue as new": {("generation", "generation claim")},
    "restart": {("generation", UNCHANGED)},
    "look at it later": {(CHECK, UNCHANGED)},
    "look at it later, whatever joined": {(CHECK, f"{GENERATION} wake_at")},
    "pause": {("", "pk"), (f"state generation {CHECK}", GENERATION)},
    "resume": {(f"state generation {NEXT} {CHECK}", PLAN)},
    "resume, nothing is pending": {("", UNCHANGED)},
    "retry now": {(f"generation planned_for retry_all_at {NEXT} {CHECK}", PLAN)},
    "skip": {(f"generation planned_for {NEXT} {CHECK}", GENERATION), (f"generation planned_for {NEXT}", GENERATION)},
    "independent no longer": {("appended", LENGTH)},
    "a group begins earlier": {("", "pk")},
    "unsubscribe": {("", "pk"), (f"state generation planned_for ttl queue {NEXT} {CHECK}", GENERATION)},
}


def test_a_transition_of_a_lane_writes_and_expects_these_attributes() -> None:
    found = dict[str, set[tuple[frozenset[str], frozenset[str]]]]()
    for transition in TRANSITIONS:
        for state in transition.before:
            write = transition.example(state)
            sets = {*write.changes, *write.remove} if isinstance(write, Update) else ()
            found.setdefault(transition.name, set()).add((frozenset(sets), frozenset(write.expect)))

    assert found == {
        name: {(frozenset(sets.split()), frozenset(expected.split())) for sets, expected in writes}
        for name, writes in WRITES.items()
    }

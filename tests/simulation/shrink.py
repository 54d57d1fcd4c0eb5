"""A failing history without everything that its failure does not need."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.simulation.history import History, Result
from tests.simulation.plan import Action, Plan

TRIES_MAX = 400
Runner = Callable[[Plan], Result]


def play_plan(plan: Plan) -> Result:
    return History(plan).run()


def shrink(plan: Plan, run: Runner = play_plan) -> Plan:
    """Return a smaller plan that breaks the same promise: fewer actions, messages, subscribers, kinds of accidents."""
    broken = run(plan).broken
    assert broken is not None, "a history that holds has nothing to shrink"
    tries = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(plan):
            if tries >= TRIES_MAX:
                return plan
            tries += 1
            found = run(candidate).broken
            if found is not None and found.invariant == broken.invariant:
                plan, smaller = candidate, True
                break
    return _fewest_accidents(plan, broken.invariant, run)


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Yield plans with less in them, the greatest steps first."""
    actions = plan.actions
    size = len(actions) // 2
    while size:
        for start in range(0, len(actions), size):
            yield replace(plan, actions=actions[:start] + actions[start + size :])
        size //= 2
    for subscriber in plan.subscribers:
        if len(plan.subscribers) > 1:
            yield replace(
                plan,
                subscribers=tuple(other for other in plan.subscribers if other is not subscriber),
                actions=tuple(action for action in actions if action.subscriber != subscriber.name),
            )
    for fault in sorted(plan.faults):
        yield replace(plan, faults=plan.faults - {fault})
    for place, action in enumerate(actions):
        for fewer in _fewer_drafts(action):
            yield replace(plan, actions=(*actions[:place], fewer, *actions[place + 1 :]))


def _fewer_drafts(action: Action) -> Iterator[Action]:
    drafts = action.drafts
    if len(drafts) > 1:
        yield replace(action, drafts=drafts[: len(drafts) // 2])
        yield replace(action, drafts=drafts[len(drafts) // 2 :])


def _fewest_accidents(plan: Plan, invariant: str, run: Runner) -> Plan:
    """Let accidents end as early as they may: what happens after the last one that matters is noise."""
    low, high = 0, sum(run(plan).accidents.values())
    best = plan
    while low <= high:
        middle = (low + high) // 2
        candidate = replace(plan, faults_max=middle)
        found = run(candidate).broken
        if found is not None and found.invariant == invariant:
            best, high = candidate, middle - 1
        else:
            low = middle + 1
    return best


def told(plan: Plan) -> Iterator[str]:
    """Yield what is left of a plan, for people."""
    yield f"seed {plan.seed}: ordering {plan.ordering.value}, retention {plan.retention_s} s"
    yield f"accidents: {', '.join(sorted(plan.faults)) or 'none'} (at most {plan.faults_max})"
    for action in plan.actions:
        what = action.subscriber or f"{len(action.drafts)} messages"
        yield f"action {action.number}: {action.kind} {what}"

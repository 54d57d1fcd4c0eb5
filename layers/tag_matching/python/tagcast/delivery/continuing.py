"""Continue as new: a long-lived execution hands its lane to a successor under the next generation (architecture §4)."""

from __future__ import annotations

from tagcast.delivery.workflow_task import Task
from tagcast.errors import ConditionLostError
from tagcast.ports import Expectation, Update, World
from tagcast.rows.keys import lane_key
from tagcast.rows.lane import lane_of


def continue_as_new(world: World, task: Task) -> None:
    """Hand the lane of *task* to a new execution; do nothing if it is somebody else's by now."""
    row = world.store.get(lane_key(task.topic, task.subscription_id))
    lane = None if row is None else lane_of(row)
    if lane is None or lane.generation != task.generation:
        return
    generation = world.dice.unique_id(world.clock.now())
    expect: Expectation = {"generation": lane.generation, "claim": lane.claim}
    try:
        world.store.write(Update(lane.key, {"generation": generation}, expect=expect))
    except ConditionLostError:
        return
    world.workflow.start(task.topic, task.subscription_id, generation)

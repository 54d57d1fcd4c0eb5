"""Continue as new: a long-lived execution hands its lane to a successor under the next generation.

See docs/architecture.md, Workflow.
"""

from __future__ import annotations

from tagcast.delivery.workflow_task import Task
from tagcast.errors import ConditionLostError
from tagcast.ports import World
from tagcast.rows import stored
from tagcast.rows.lane import generation_update


def continue_as_new(world: World, task: Task) -> None:
    """Hand the lane of *task* to a new execution; do nothing if it is somebody else's by now."""
    lane = stored.lane(world.store, task.topic, task.subscription_id)
    if lane is None or lane.generation != task.generation:
        return
    generation = world.dice.unique_id(world.clock.now())
    try:
        world.store.write(generation_update(lane, generation, lane.as_handed_on()))
    except ConditionLostError:
        return
    world.workflow.start(task.topic, task.subscription_id, generation)

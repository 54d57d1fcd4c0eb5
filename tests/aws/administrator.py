"""The deployed world as an administrator's own process has it: every call is made at once, and none fails."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tagcast.ports import World
from tagcast_aws import wiring

from tests.aws.box import ADMINISTRATOR
from tests.aws.deployment import Deployment
from tests.aws.environments import AtOnce, EnvironmentDice
from tests.aws.timeline import Timeline


def administrator(deployment: Deployment) -> World:
    """Return the shipped world over *deployment*, whose time does not pass by its calls."""
    ground = wiring.Dependencies(
        environ=deployment.functions.by_id["ManageFunction"].environ,
        make_client=lambda service, **how: deployment.box.client(service, ADMINISTRATOR),
        clock=_Clock(deployment.timeline),  # type: ignore[arg-type]
        dice=EnvironmentDice(Random("world")),
        lookup=deployment.network.look_up,
        make_thread=AtOnce,
    )
    return replace(wiring.compose(ground), topic_known_s=0.0)


class _Clock:
    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def now(self) -> int:
        return self._timeline.now

    def monotonic(self) -> float:
        return self._timeline.seconds

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody waits outside of virtual time")

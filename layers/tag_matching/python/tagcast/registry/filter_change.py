"""The use case of changing one subscription's filter, with all other settings and secrets unchanged.

Accepted messages keep the verdict of their publish.
"""

from __future__ import annotations

from collections.abc import Mapping

from tagcast.concurrency.contention import until_won
from tagcast.model import Subscription
from tagcast.ports import World
from tagcast.registry.subscribing import check_version, replace_filter
from tagcast.registry.subscriptions import get_subscription


def change_filter(
    world: World, topic: str, name: str, filter: Mapping[str, object] | None, if_match: int | None = None
) -> Subscription:
    """Replace the filter, as a new version of the subscription; *if_match* is the required current version.

    Raises NotFoundError, InvalidFilterError, PreconditionFailedError.
    """

    def attempt() -> Subscription:
        known = get_subscription(world, topic, name)
        check_version(known, if_match)
        return replace_filter(world, known, filter)

    return until_won(world, f"topic {topic}", attempt)

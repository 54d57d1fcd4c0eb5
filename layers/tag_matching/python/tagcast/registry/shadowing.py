"""Evaluates shadows while messages are published. Their verdicts are only compared with the active filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tagcast.errors import FilterEvaluationError
from tagcast.filters.compiled import CompiledFilter
from tagcast.filters.function_filter import is_function
from tagcast.filters.kinds import compile_filter
from tagcast.model import Message, Subscription
from tagcast.ports import World
from tagcast.rows.message import MessageRow
from tagcast.rows.shadow import DIFFERENCES, Comparison, Shadow, counts_update, sample_put

SAMPLES_PER_PUBLISH = 5
"""At most 5 differences of each kind are stored per publish call, to keep batches cheap."""
OBSERVED_WITHIN_S = 0.25
"""Shadows take at most this much time of a publish call."""


@dataclass(frozen=True, slots=True)
class ReadyShadow:
    """A compiled shadow of the subscription with *ordinal*.

    The counts and samples of its comparison with the active filter have the partition key *partition*.
    """

    ordinal: int
    filter: CompiledFilter
    partition: str

    def compare(self, message: Message, matched: frozenset[int]) -> Comparison:
        """Return which of the two filters, the shadow and the active one, match *message*.

        *matched* has the ordinals of the subscriptions whose active filters matched. A filter that evaluates to unknown
        (None) does not match. If the shadow's filter fails, the result is ERRORS.
        """
        is_active = self.ordinal in matched
        try:
            would_match = self.filter.evaluate(message) is True
        except FilterEvaluationError:
            return Comparison.ERRORS
        if is_active:
            return Comparison.BOTH if would_match else Comparison.ONLY_ACTIVE
        return Comparison.ONLY_SHADOW if would_match else Comparison.NEITHER


def compile_shadows(
    shadows: Iterable[Shadow], by_ordinal: Mapping[int, Subscription], known: Iterable[ReadyShadow] = ()
) -> tuple[ReadyShadow, ...]:
    """Compile *shadows*, without those of missing subscriptions.

    A shadow in *known* is reused if neither the shadow nor the active filter changed. If the active filter is a filter
    function, the shadow is left out, because the function's verdict is unknown at publish time.
    """
    ready = {each.partition: each for each in known}
    return tuple(
        ready.get(partition) or ReadyShadow(shadow.ordinal, compile_filter(shadow.filter), partition)
        for shadow in shadows
        if (owner := by_ordinal.get(shadow.ordinal)) is not None and not is_function(owner.settings.filter)
        for partition in (shadow.observations(owner.settings.filter),)
    )


def observe(world: World, shadows: Sequence[ReadyShadow], rows: Sequence[MessageRow]) -> None:
    """Evaluate *shadows* on newly accepted messages, and store counts and samples of the comparisons.

    The counts of a shadow take one write. No error is raised, and no work begins after :data:`OBSERVED_WITHIN_S`,
    because statistics must not affect accepted messages. A shadow whose counts are lost is counted in the metric
    ``ShadowCountsLost``.
    """
    until_s = world.clock.monotonic() + OBSERVED_WITHIN_S
    for shadow in shadows:
        try:
            _observe_one(world, shadow, rows, until_s)
        except Exception:  # noqa: BLE001 - counted; a producer must not be told that an accepted message failed
            world.telemetry.count("ShadowCountsLost")


def _observe_one(world: World, shadow: ReadyShadow, rows: Sequence[MessageRow], until_s: float) -> None:
    by_comparison: dict[Comparison, list[Message]] = {comparison: [] for comparison in Comparison}
    for row in rows:
        if world.clock.monotonic() >= until_s:
            raise TimeoutError
        by_comparison[shadow.compare(row.message, row.map.matched)].append(row.message)
    counts = {comparison: len(messages) for comparison, messages in by_comparison.items()}
    world.store.write(counts_update(shadow.partition, counts, rows[0].message.message_id, world.clock.now()))
    for way in DIFFERENCES:
        for message in by_comparison[way][-SAMPLES_PER_PUBLISH:]:
            if world.clock.monotonic() >= until_s:
                return
            world.store.write(sample_put(shadow.partition, way, message))

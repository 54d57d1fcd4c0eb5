"""The archive of one history, so that the jobs and their oracle can read the same histories."""

from dataclasses import replace

from tagcast.archive.record import Record

from tests.simulation.history import History
from tests.simulation.plan import draw_plan


def archive_of(seed: int) -> list[Record]:
    """Play *seed* on a topic of its own, ``t<seed>``, and return its archive, repetitions of the stream included.

    Raises what was broken, if anything: such an archive proves nothing.
    """
    history = History(replace(draw_plan(seed), topic=f"t{seed}"))
    result = history.run()
    if result.broken is not None:
        raise result.broken
    return history.archived()

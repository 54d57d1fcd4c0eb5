"""Detects when the local stack has more work than its few workers can do, and delays the sweep."""

from collections.abc import Callable
from dataclasses import dataclass

WAITING_MAX = 32
"""If more events wait for one function, the log warns and the sweep is delayed."""
PUT_OFF_S = 300.0
"""The maximum delay of the sweep under load, because messages must expire some time."""
SAY_AGAIN_S = 60.0


@dataclass
class Overload:
    """Watches the number of waiting events.

    The sweep restarts a lane without a worker as if its execution had died. While there are too few workers, each
    sweep would only add waiting executions.
    """

    waiting: Callable[[], int]
    say: Callable[[str], None]
    _since: float | None = None
    _said_at: float | None = None

    def puts_off(self, now_s: float) -> bool:
        """Return whether to skip the sweep that is due. Sweeps are skipped for at most :data:`PUT_OFF_S`.

        >>> waiting = [100]
        >>> overload = Overload(lambda: waiting[0], print)
        >>> overload.puts_off(0.0), overload.puts_off(10.0), overload.puts_off(301.0), overload.puts_off(302.0)
        overloaded: 100 events wait for a worker; the sweep waits for less
        overloaded: 100 events wait for a worker; the sweep waits for less
        (True, True, False, True)
        >>> waiting[0] = 0
        >>> overload.puts_off(303.0)
        no longer overloaded
        False
        """
        waiting = self.waiting()
        if waiting <= WAITING_MAX:
            if self._since is not None:
                self.say("no longer overloaded")
            self._since = self._said_at = None
            return False
        if self._said_at is None or now_s - self._said_at >= SAY_AGAIN_S:
            self.say(f"overloaded: {waiting} events wait for a worker; the sweep waits for less")
            self._said_at = now_s
        if self._since is None or now_s - self._since > PUT_OFF_S:
            put_off = self._since is None
            self._since = now_s
            return put_off
        return True

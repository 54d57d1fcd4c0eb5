"""Decides whether a request is repeated, and how long the client waits before each repetition."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from tagcast_client.errors import UnreachableError
from tagcast_client.operation import Answer, Operation

TRANSIENT = frozenset({500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Retries:
    """How long a request is repeated after its first try, and the waits between tries.

    No try starts later than *seconds* after the first try; 0 disables repetitions. The longest wait doubles with each
    try, from *first_wait_s* up to *wait_s_max*. Before the API's first answer to the client, refused connections are
    repeated only for *unknown_s* seconds, because the address is probably wrong. The API remembers an idempotency key
    for the topic's retention. During this time, no repetition publishes twice.
    """

    seconds: float = 20.0
    first_wait_s: float = 0.2
    wait_s_max: float = 5.0
    unknown_s: float = 4.0

    def window_s(self, made: int) -> float:
        """Return the longest wait after *made* tries, in seconds. It doubles with each try, up to *wait_s_max*.

        >>> [Retries().window_s(made) for made in (1, 2, 3, 99)]
        [0.2, 0.4, 0.8, 5.0]
        """
        return min(self.wait_s_max, self.first_wait_s * 2.0 ** min(made - 1, 16))


@dataclass(slots=True)
class Tries:
    """The tries of one operation. *began_s* is the start, by a monotonic clock. *made* counts the tries.

    *may_be_done* is true if the API may have carried out an earlier try, because its answer was lost or an error.
    """

    policy: Retries
    began_s: float
    made: int = 0
    may_be_done: bool = False

    def wait_s(
        self, operation: Operation[Any], outcome: Answer | UnreachableError, now_s: float, *, is_known: bool = True
    ) -> float | None:
        """Return the seconds to wait before the next try, or None if *outcome* is final or no time is left.

        *is_known* is true if the API has answered this client before. The wait is random within a window that doubles,
        and at least the answer's Retry-After.
        """
        self.made += 1
        seconds, retry_after = self.policy.seconds, ""
        if isinstance(outcome, UnreachableError):
            had_no_effect, is_transient = outcome.refused, True
            if outcome.refused and not is_known:
                seconds = min(seconds, self.policy.unknown_s)
        else:
            had_no_effect, is_transient = outcome.status == 429, outcome.status in TRANSIENT
            retry_after = outcome.headers.get("retry-after", "")
        if not had_no_effect and not (operation.repeatable and is_transient):
            return None
        self.may_be_done = self.may_be_done or not had_no_effect
        min_s = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0  # A date counts as 0.
        wait_s = max(random.uniform(0.0, self.policy.window_s(self.made)), min_s)
        return wait_s if now_s + wait_s <= self.began_s + seconds else None

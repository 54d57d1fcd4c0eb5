"""A clock that stands still."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StoppedClock:
    """The time is always *instant*. Waiting fails."""

    instant: int = 0

    def now(self) -> int:
        return self.instant

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)

    async def pause(self, seconds: float) -> None:
        raise AssertionError(seconds)

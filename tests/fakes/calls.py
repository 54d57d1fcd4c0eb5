"""What happens before a call of something that is shipped, which is then carried out as it is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass
class Before:
    """Lets a test act before calls of an attribute of an object, a class or a module; the act sees their arguments."""

    patch: pytest.MonkeyPatch

    def each(self, owner: object, name: str, act: Callable[..., object]) -> None:
        """Act before each call."""
        whole = getattr(owner, name)

        def called(*given: Any, **named: Any) -> Any:
            act(*given, **named)
            return whole(*given, **named)

        self.patch.setattr(owner, name, called)

    def next(self, owner: object, name: str, act: Callable[[], object]) -> None:
        """Act before the next call only."""
        whole = getattr(owner, name)

        def act_once(*_: Any, **__: Any) -> None:
            self.patch.setattr(owner, name, whole)
            act()

        self.each(owner, name, act_once)

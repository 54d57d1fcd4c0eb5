"""A client of boto3 that answers by a script and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError


def refusal(code: str, **more: Any) -> ClientError:
    """Return an error in botocore's shape."""
    return ClientError({"Error": {"Code": code, "Message": "no"}, **more}, "Operation")  # type: ignore[typeddict-item]


@dataclass
class ScriptedClient:
    """Every method takes the next answer, whatever it is called: a mapping, or an error that it raises."""

    answers: list[Mapping[str, Any] | Exception]
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    meta: Any = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            self.asked.append((name, deepcopy(request)))
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call

    @property
    def operations(self) -> Sequence[str]:
        return [name for name, _ in self.asked]

    @property
    def requests(self) -> Sequence[dict[str, Any]]:
        return [request for _, request in self.asked]

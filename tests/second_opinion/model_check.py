"""Whether a request is what the service's model takes: members, types, lengths, ranges, patterns, enums.

botocore checks members, types and lower bounds, and production skips even that (`tagcast_aws.runtime.aws_clients`). The
upper bounds, patterns and enums stand in the same model, and nothing on the way to AWS looks at them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from botocore.model import OperationModel, Shape
from botocore.validate import ParamValidator

VALIDATOR = ParamValidator()
_JAVA = {
    r"\p{L}": r"\w",
    r"\p{Z}": r"\s",
    r"\p{N}": r"\d",
    r"\p{Print}": "[ -~]",
    r"\p{ASCII}": r"[\x00-\x7f]",
    r"\uD800\uDC00-\uDBFF\uDFFF": "\U00010000-\U0010ffff",
}
Path = tuple[str, ...]


def faults(operation: OperationModel, parameters: Mapping[str, Any]) -> list[str]:
    """Return in words what the model of *operation* does not allow in *parameters*."""
    shape = operation.input_shape
    if shape is None:
        return [f"{operation.name} takes nothing"] if parameters else []
    report = VALIDATOR.validate(dict(parameters), shape)
    found = report.generate_report().splitlines() if report.has_errors() else []
    return [*found, *_beyond(shape, parameters, ())]


def _beyond(shape: Shape, value: Any, path: Path) -> Iterator[str]:
    """Yield what breaks an upper bound, a pattern or an enum in *value* or below it."""
    kind = shape.type_name
    if kind == "structure" and isinstance(value, Mapping):
        members = shape.members  # type: ignore[attr-defined]
        for name, part in value.items():
            if name in members:
                yield from _beyond(members[name], part, (*path, name))
        return
    if isinstance(value, str | bytes | list | tuple | Mapping):
        most = shape.metadata.get("max")
        if most is not None and len(value) > most:
            yield f"{_named(path)}: length {len(value)}, at most {most}"
    elif isinstance(value, int | float) and not isinstance(value, bool):
        most = shape.metadata.get("max")
        if most is not None and value > most:
            yield f"{_named(path)}: {value}, at most {most}"
    if kind == "list" and isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield from _beyond(shape.member, part, (*path, str(place)))  # type: ignore[attr-defined]
    elif kind == "map" and isinstance(value, Mapping):
        for name, part in value.items():
            yield from _beyond(shape.key, name, (*path, f"key {name}"))  # type: ignore[attr-defined]
            yield from _beyond(shape.value, part, (*path, name))  # type: ignore[attr-defined]
    elif kind == "string" and isinstance(value, str):
        yield from _text_faults(shape, value, path)


def _text_faults(shape: Shape, value: str, path: Path) -> Iterator[str]:
    allowed = shape.metadata.get("enum")
    if allowed and value not in allowed:
        yield f"{_named(path)}: {value!r} is none of {', '.join(allowed)}"
    pattern = shape.metadata.get("pattern")
    if pattern is not None and not compiled(pattern).fullmatch(value):
        yield f"{_named(path)}: {value!r} is not like {pattern}"


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    r"""Return a pattern of a model, which is written for Java, as Python has it.

    >>> bool(compiled(r"[\p{L}\p{Z}\p{N}_.:/=+\-@]+").fullmatch("a b"))
    True
    """
    for theirs, ours in _JAVA.items():
        pattern = pattern.replace(theirs, ours)
    return re.compile(pattern, re.DOTALL)


def _named(path: Path) -> str:
    return ".".join(path) or "the request"


@dataclass
class Recorder:
    """Every request of the clients that it follows, judged by the model of its service."""

    asked: dict[str, int] = field(default_factory=dict)
    """How often each operation was asked for, as `service:Operation`."""
    wrong: list[str] = field(default_factory=list)

    def follow(self, client: Any) -> None:
        """Judge each request of a client of boto3 in the form in which it would be written for the wire."""
        client.meta.events.register_last("before-parameter-build", self._judge)

    def _judge(self, params: Mapping[str, Any], model: OperationModel, **_: Any) -> None:
        name = f"{model.service_model.service_name}:{model.name}"
        self.asked[name] = self.asked.get(name, 0) + 1
        self.wrong += [f"{name}: {fault}" for fault in faults(model, params)]

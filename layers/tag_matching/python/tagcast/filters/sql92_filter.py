"""The filter kind ``sql92``: a condition over the properties of a message."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tagcast.errors import Fault, FaultCode, InvalidFilterError
from tagcast.filters.compiled import CompiledFilter, FilterInput, FilterValue, unknown_keys
from tagcast.filters.explanation import Explanation
from tagcast.filters.sql92 import CompiledExpression, Dialect, compile_sql92

TAGS_PROPERTY = "TAGS"
_TAGS_SEPARATOR = " || "
_HALF_PAIR = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Sql92Filter(CompiledFilter):
    """A filter that matches if the expression is TRUE for the properties of the message.

    If *reads_tags*, the expression reads the message's tags as the property TAGS (:func:`properties_with_tags`). Only
    the rocketmq dialect has this property.
    """

    kind = "sql92"
    expression: CompiledExpression
    reads_tags: bool = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about parts that may not mean what the author intended, mostly in the rocketmq dialect."""
        return self.expression.warnings

    def evaluate(self, message: FilterInput) -> bool | None:
        """Return the value of the expression: True, False, or None (unknown). Only True is a match.

        Raises FilterEvaluationError if the evaluation fails, in the rocketmq dialect only.
        """
        if self.reads_tags:
            return self.expression.evaluate(properties_with_tags(message))
        return self.expression.evaluate(message.properties)

    def explain(self, message: FilterInput) -> Explanation:
        """Return a tree of the expression, with the value of each part."""
        return self.expression.explain(properties_with_tags(message) if self.reads_tags else message.properties)

    def as_json(self) -> dict[str, object]:
        """Return the expression as written, and the dialect."""
        return {
            "kind": self.kind,
            "expression": self.expression.text,
            "dialect": self.expression.dialect.value,
        }


def properties_with_tags(message: FilterInput) -> Mapping[str, str]:
    """Return the properties of a message, with its tags as the property TAGS.

    A published property TAGS is not replaced. RocketMQ also sets a property KEYS. Here KEYS is an ordinary property,
    because messages have no keys of their own.

    >>> from types import SimpleNamespace
    >>> properties_with_tags(SimpleNamespace(tags=("TagA", "TagB"), properties={"KEYS": "7"}))
    {'TAGS': 'TagA || TagB', 'KEYS': '7'}
    """
    if not message.tags:
        return message.properties
    return {TAGS_PROPERTY: _TAGS_SEPARATOR.join(message.tags), **message.properties}


def compile_sql92_filter(value: FilterValue) -> Sql92Filter:
    """Compile ``{"kind": "sql92", "expression": ..., "dialect": "strict" | "rocketmq"}``.

    Raises InvalidFilterError. A syntax error raises the subclass FilterSyntaxError.

    >>> compile_sql92_filter({"kind": "sql92", "expression": "a = 1"}).as_json()["dialect"]
    'strict'
    """
    faults = unknown_keys(value, frozenset({"kind", "expression", "dialect"}))
    expression, dialect = value.get("expression"), value.get("dialect", Dialect.STRICT.value)
    if not isinstance(expression, str) or not expression:
        faults.append(Fault("is required", "/expression", FaultCode.REQUIRED))
    elif _HALF_PAIR.search(expression):
        faults.append(Fault("must not have unpaired surrogates", "/expression", FaultCode.WRONG_FORMAT))
    if not isinstance(dialect, str) or dialect not in [known.value for known in Dialect]:
        faults.append(Fault('must be "strict" or "rocketmq"', "/dialect", FaultCode.NOT_ALLOWED))
    if faults:
        raise InvalidFilterError(tuple(faults))
    compiled = compile_sql92(str(expression), str(dialect))
    names = (node.value for node in compiled.nodes if node.operator == "property")
    return Sql92Filter(compiled, reads_tags=compiled.dialect is Dialect.ROCKETMQ and TAGS_PROPERTY in names)

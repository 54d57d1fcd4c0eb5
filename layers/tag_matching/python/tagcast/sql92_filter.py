"""The filter kind ``sql92``: a condition over the properties of a message."""

from dataclasses import dataclass

from tagcast.compiled_filter import FilterInput, FilterValue, unknown_keys
from tagcast.errors import Fault, InvalidFilterError
from tagcast.explanation import Explanation
from tagcast.sql92 import CompiledExpression, Dialect, compile_sql92


@dataclass(frozen=True, slots=True)
class Sql92Filter:
    """Received when the expression is TRUE for the properties of the message."""

    expression: CompiledExpression
    kind: str = "sql92"

    @property
    def warnings(self) -> tuple[str, ...]:
        """The known traps of the rocketmq dialect that the expression falls into."""
        return self.expression.warnings

    def evaluate(self, message: FilterInput) -> bool | None:
        """See :meth:`tagcast.sql92.CompiledExpression.evaluate`."""
        return self.expression.evaluate(message.properties)

    def explain(self, message: FilterInput) -> Explanation:
        """The tree of the expression with its values."""
        return self.expression.explain(message.properties)

    def as_json(self) -> dict[str, object]:
        """The text as written, and the dialect."""
        return {
            "kind": self.kind,
            "expression": self.expression.text,
            "dialect": self.expression.dialect.value,
        }


def compile_sql92_filter(value: FilterValue) -> Sql92Filter:
    """Validate ``{"kind": "sql92", "expression": ..., "dialect": "strict" | "rocketmq"}``.

    >>> compile_sql92_filter({"kind": "sql92", "expression": "a = 1"}).as_json()["dialect"]
    'strict'
    """
    faults = unknown_keys(value, frozenset({"kind", "expression", "dialect"}))
    expression, dialect = value.get("expression"), value.get("dialect", Dialect.STRICT.value)
    if not isinstance(expression, str) or not expression:
        faults.append(Fault("an expression is required", "/expression"))
    elif any("\ud800" <= character <= "\udfff" for character in expression):
        faults.append(Fault("half surrogate pairs are not allowed", "/expression"))
    if not isinstance(dialect, str) or dialect not in [known.value for known in Dialect]:
        faults.append(Fault('"strict" or "rocketmq" is expected', "/dialect"))
    if faults:
        raise InvalidFilterError(tuple(faults))
    return Sql92Filter(compile_sql92(str(expression), str(dialect)))

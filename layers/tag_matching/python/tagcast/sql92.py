"""SQL92 filters under the name by which other programs import them (docs/filters.md, From Python)."""

from tagcast.filters.sql92 import CompiledExpression, Dialect, FilterEvaluationError, FilterSyntaxError, compile_sql92

__all__ = ["CompiledExpression", "Dialect", "FilterEvaluationError", "FilterSyntaxError", "compile_sql92"]

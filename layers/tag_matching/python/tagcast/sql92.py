"""Re-exports SQL92 filters for other programs (docs/filters.md, From Python)."""

from tagcast.filters.sql92 import CompiledExpression, Dialect, FilterEvaluationError, FilterSyntaxError, compile_sql92

__all__ = ["CompiledExpression", "Dialect", "FilterEvaluationError", "FilterSyntaxError", "compile_sql92"]

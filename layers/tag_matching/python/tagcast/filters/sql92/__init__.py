"""SQL92 filters over message properties, in two dialects. The names exported here are the public interface."""

from tagcast.errors import FilterEvaluationError, FilterSyntaxError
from tagcast.filters.sql92.dialect import Dialect
from tagcast.filters.sql92.expression import CompiledExpression, compile_sql92

__all__ = ["CompiledExpression", "Dialect", "FilterEvaluationError", "FilterSyntaxError", "compile_sql92"]

"""SQL92 filters over message properties, in two dialects. Other programs rely on what is named here."""

from tagcast.errors import FilterEvaluationError, FilterSyntaxError
from tagcast.filters.sql92.dialect import Dialect
from tagcast.filters.sql92.expression import CompiledExpression, compile_sql92

__all__ = ["CompiledExpression", "Dialect", "FilterEvaluationError", "FilterSyntaxError", "compile_sql92"]

"""Filters: compiled once, evaluated for each message, explained on demand.

`kinds` lists all six kinds. Five modules (`tag_filters`, `routing_key_filter`, `sql92_filter`, `event_pattern_filter`,
`function_filter`) compile them to a `compiled.CompiledFilter`. `explanation` has the tree that explains a verdict.
The rules of matching are in `tags`, `routing_key`, `sql92` and `event_pattern`.
"""

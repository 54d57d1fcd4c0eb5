"""Filters: compiled once, asked per message, explained on demand.

`kinds` knows all six; each has a module that compiles it (`tag_filters`, `routing_key_filter`, `sql92_filter`,
`event_pattern_filter`, `function_filter`) into what `compiled` promises, and words for its verdict in `explanation`.
The rules of matching themselves are `tags`, `tag_expression`, `routing_key`, `sql92` and `event_pattern`.
"""

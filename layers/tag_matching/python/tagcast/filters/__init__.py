"""Filters: compiled once, evaluated for each message, explained on demand.

`kinds` lists all six kinds. A module for each (`tag_filters`, `routing_key_filter`, `sql92_filter`,
`event_pattern_filter`, `function_filter`) compiles it to the protocol of `compiled`; `explanation` holds the tree of a
verdict. The rules of matching are in `tags`, `tag_expression`, `routing_key`, `sql92` and `event_pattern`.
"""

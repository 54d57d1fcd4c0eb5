"""Event patterns: the language of EventBridge rules and SNS filter policies for JSON.

`pattern` parses a pattern and lists its faults; `leaves` are its comparisons. `event` indexes a message's JSON by path.
`evaluate` computes the verdict, and ensures that conditions on one array match the same element; `explain` explains it.
`size` estimates the work of the index. `scopes` selects the part of a message that a pattern reads. The index of many
patterns is `tagcast.filters.index.event_index`.
"""

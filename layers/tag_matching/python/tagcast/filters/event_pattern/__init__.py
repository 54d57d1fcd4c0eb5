"""Event patterns: the language of EventBridge rules and SNS filter policies for JSON.

`pattern` parses a pattern and lists its faults; `leaves` has the comparisons. `event` lists a message's JSON values by
path. `evaluate` returns the verdict: conditions on one array must be met by the same element. `explain` explains the
verdict. `scopes` selects the part of a message that a pattern reads. The index of many patterns is
`tagcast.filters.index.event_index`.
"""

"""Event patterns: the language of EventBridge rules and SNS filter policies for JSON.

`pattern` parses a pattern and lists its faults. `leaves` has the comparisons of a value. `event` lists the values of a
JSON object by path. `evaluate` decides whether a pattern matches. One element of an array must meet all conditions on
this array. `explain` explains the verdict. `scopes` selects the part of a message that a pattern reads. The index of
many patterns is `tagcast.filters.index.event_index`.
"""

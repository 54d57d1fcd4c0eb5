"""Event patterns: the language in which EventBridge rules and SNS filter policies ask about JSON.

`pattern` reads one and names its faults, `leaves` are its comparisons, `event` reads a message's JSON by paths,
`arrays` keeps what is asked of one array within one element, `evaluate` and `explain` answer, `sns` has what SNS
allows, `scopes` says what of a message is read. The index is `tagcast.filters.index.event_index`.
"""

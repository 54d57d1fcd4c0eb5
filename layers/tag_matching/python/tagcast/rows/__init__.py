"""All stored rows: only this package knows key prefixes and attribute names (a test checks it).

- `keys` builds the key of every row, and finds a row's kind by its key; `codec` converts values to rows and back;
  `values`, `ordinals` and `ended_entries` encode single attributes;
- each subject has a module with its rows and conditional writes: `topic`, `subscription`, `sealed`,
  `shadow`; `message`, `message_transitions`; `lane`, `lane_transitions`, `due`, `listed`; `host`, `rate`, `waiting`,
  `claim`, `tail`, `member`;
- `stored`: reads the tables and returns values.
"""

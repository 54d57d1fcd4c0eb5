"""All stored rows: only this package knows key prefixes and attribute names (a test checks it).

- `keys`: the keys of all rows, and the kind of a row by its key; `codec`: a kind of row with its encoder and decoder;
  `values`, `ordinals`, `ended_entries`: the encodings of values;
- one module for each subject, with its rows and conditional writes: `topic`, `subscription`, `sealed`,
  `shadow`; `message`, `message_transitions`; `lane`, `lane_transitions`, `due`, `listed`; `host`, `rate`, `waiting`,
  `claim`, `tail`, `member`;
- `stored`: reads the tables and returns values.
"""

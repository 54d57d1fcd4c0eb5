"""Everything that is stored: the only room that knows a key's prefix or an attribute's name (a test shows it).

- `keys`: where rows stand, and what a row is by its key; `kind`: a key with the functions that read and write a
  row; `values`, `ordinals`, `ended_entries`: how values stand in them;
- one module for each subject, with its rows and its conditional writes: `topic`, `subscription`, `sealed`,
  `shadow`; `message`, `log`; `lane`, `due`, `listed`; `host`, `rate`, `waiting`,
  `claim`, `tail`, `member`;
- `stored`: what the tables say, as values.
"""

"""Everything that is stored: the only room that knows a key's prefix or an attribute's name (a test shows it).

- `keys`: where rows stand; `declaration`: how a kind of row is declared, from which reading and writing follow;
  `values`, `ordinals`, `ended_entries`, `body`, `packs`: how values stand in them;
- one module for each subject, with its declarations and its conditional writes: `topic`, `subscription`,
  `filter_version`, `sealed`, `shadow`; `message`, `map_attributes`, `sections`, `accepted`, `message_writes`,
  `attempt_history`; `lane`, `due`, `pulled`, `listed`; `host`, `rate`, `waiting`, `claim`, `tail`, `member`,
  `progress`;
- `stored`, `stored_maps`: what the tables say, as values; `kinds`: what a row is, by its key.
"""

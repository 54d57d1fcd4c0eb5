"""Everything that is stored: the only room that knows a key's prefix or an attribute's name (a test shows it).

- `keys`: where rows stand; `values`, `ordinals`, `ended_entries`: how values stand in them;
- one module for each kind of row, with its codec and its conditional writes: `registry` (topics, subscriptions),
  `topic_writes`, `subscription_writes`, `recent_changes`, `filter_version`, `removal`, `shadow`; `message`,
  `message_writes`, `lane`, `due`, `listed`, `claim`, `progress`;
- `stored`: what the tables say, as values; `kinds`: what a row is, by its key.
"""

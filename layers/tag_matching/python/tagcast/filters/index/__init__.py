"""The index of a topic: finds all subscriptions that match a message without evaluating each filter.

A subscription is the *owner* of its filter. `topic_index` combines the indexes of the kinds: `tag_index`,
`routing_trie`, `sql92_index`, `event_index`. `changed_index` applies a few changes without a rebuild.
"""

"""The index of a topic: finds all subscriptions that match a message, without evaluating each filter.

The *owner* of a filter is the ordinal of its subscription. `topic_index` combines the indexes of the kinds:
`tag_index`, `routing_trie`, `sql92_index`, `event_index`. `changed_index` applies a few changes without a rebuild.
"""

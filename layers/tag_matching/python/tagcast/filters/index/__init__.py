"""The index of a topic: all subscriptions that match a message, without asking each of them.

`topic_index` puts together what each kind of filter has: `tag_index`, `routing_trie`, `sql92_index`, `event_index`;
`changed_index` takes a few changes without building anew.
"""

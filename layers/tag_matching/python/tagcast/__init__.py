"""The core of tagcast: what the service means, without any of the world in it.

From the inside out; a room knows only those above it in this list:

- `ids`, `model`, `errors`, `instant`, `resource_names`, `state_map`: the words: messages, subscriptions, entries,
  lanes, faults, time, queues and functions;
- `tables`, `ports`, `memory`, `paging`: what the core asks of the world, and how use cases take it;
- `concurrency`: work side by side, rows that many write at once;
- `filters`: the five kinds of filter, what they say and why; `filters.index` finds all matches at once;
- `rows`: keys and codecs of everything that is stored;
- `registry`: topics, subscriptions, shadows, and what a process knows of a topic;
- `pushing`: one attempt: its envelope, its slot, its outcome, the delay after it;
- `delivery`: the protocol: publishing, the first round, redelivery of lanes, settling;
- `operating`: what people ask and order: messages, explanations, lanes;
- `repairing`: what relay and sweep do so that nothing stays owed without anybody at work on it;
- `archive`: what is told to the archive of every change;
- `sql92`, `tags`, `routing_key`: names by which other programs import filters.
"""

"""The core of tagcast: the meaning of the service, independent of AWS.

These are its packages, from the inside out. Each imports only packages above it in this list:

- `ids`, `model`, `errors`, `instant`, `resource_names`: the vocabulary (messages, subscriptions,
  entries, lanes, faults, time, queues and functions);
- `tables`, `ports`: the ports, and how use cases receive them;
- `concurrency`: concurrent work, contended rows;
- `filters`: the filter kinds, their verdicts and explanations; `filters.index` matches a message against all filters;
- `rows`: keys and codecs of all stored rows;
- `sealing`: secrets;
- `registry`: topics, subscriptions, shadows, and a process's cache of a topic's subscriptions;
- `pushing`: one attempt with its envelope, its slot, its outcome, and the delay after it;
- `delivery`: the delivery protocol (publishing, the first round, redelivery of lanes, ends);
- `pulling`: pulls of consumer groups and their answers;
- `operating`: use cases of operators for messages, explanations and lanes;
- `repairing`: relay and sweep, so that no pending delivery is without a worker;
- `archive`: the archive records of every change;
- `sql92`, `tags`, `routing_key`: names by which other programs import filters.
"""

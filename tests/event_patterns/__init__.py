"""Pairs of event patterns and events, made by a seed, for a comparison with another engine.

`python -m tests.event_patterns make COUNT [SEED] > pairs.jsonl` writes pairs, a line of JSON each: `pattern` and
`event` are JSON texts. Another engine answers each line by `true`, `false` or `refused`; then
`python -m tests.event_patterns compare pairs.jsonl verdicts.txt` tells where we say something else.

A star behind a verdict (`true*`) means that the engine contradicts itself: it says so of the comparisons one by one,
each as a rule of its own, and the opposite of all of them in one rule.
"""

"""Pull groups: members pull what was handed over to their group, and say what came of it.

See docs/protocol.md, Pull groups.
"""

"""Pull groups: members pull what was handed over to their group, and say what came of it.

See docs/architecture.md, Pull groups.
"""

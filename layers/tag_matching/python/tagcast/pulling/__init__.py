"""Pull groups: members `pull` what was handed over to their group, and say by `answering` what came of it.

`group` ends their entries, `handles` are the receipt handles. See docs/protocol.md, Pull groups.
"""

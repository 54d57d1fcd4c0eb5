"""Pull groups: members `pull` messages from their group's queue, and acknowledge or release them with `answering`.

`group` ends the entries of pulled messages; `handles` has the receipt handles. See docs/protocol.md, Consumer groups.
"""

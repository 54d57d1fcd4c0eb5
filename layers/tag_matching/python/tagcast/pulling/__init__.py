"""Pull groups: members `pull` messages from their group's queue, and acknowledge or release them with `answering`.

`group` ends their entries; `handles` are the receipt handles. See docs/protocol.md, Consumer groups.
"""

"""Pull groups (docs/protocol.md, Consumer groups): members `pull` messages from their group's queue.

`acknowledge` acknowledges or releases pulled messages, or extends their visibility timeouts. `group` ends the
deliveries of pulled messages. `handles` has the receipt handles.
"""

"""The protocol of delivery: `publishing`, then the first round (`fan_out`), then lanes (`redelivery`).

`settling` brings a message's row from one state map to the next, whoever does it.
"""

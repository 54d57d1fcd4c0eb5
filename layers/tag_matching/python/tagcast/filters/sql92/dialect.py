"""The two dialects, and the limits of an expression."""

from enum import StrEnum

CHARACTERS_MAX = 16_384
DEPTH_MAX = 256
TERMS_MAX = 1_024
ELEMENTS_MAX = 1_000


class Dialect(StrEnum):
    """``strict`` behaves as authors expect from SQL; ``rocketmq`` filters exactly like RocketMQ."""

    STRICT = "strict"
    ROCKETMQ = "rocketmq"

"""The two dialects and the limits of an expression."""

from enum import StrEnum

CHARACTERS_MAX = 16_384
DEPTH_MAX = 256
TERMS_MAX = 1_024
ELEMENTS_MAX = 1_000


class Dialect(StrEnum):
    """``strict`` is what its users believe they write; ``rocketmq`` filters as the original does."""

    STRICT = "strict"
    ROCKETMQ = "rocketmq"

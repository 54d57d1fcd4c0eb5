"""RocketMQ's Bloom filter of consumer groups: which bits of a message's bit map belong to a group.

Only for reading and writing RocketMQ's own bit maps; matching here never needs it. A hit is never final.
"""

import math
from dataclasses import dataclass

_WORD = 0xFFFF_FFFF_FFFF_FFFF
_C1, _C2 = 0x87C3_7B91_1142_53D5, 0x4CF5_AD43_2745_937F


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """``hashes`` bits are set for each key in a map of ``bits`` bits (a multiple of 8).

    >>> BloomFilter.sized(20, 32).positions("CID_0#topic0")
    (80, 66, 42)
    """

    hashes: int
    bits: int

    @classmethod
    def sized(cls, error_percent: int, expected: int) -> "BloomFilter":
        """The filter for an error rate in percent (1-99) and a number of expected keys.

        >>> BloomFilter.sized(20, 32)
        BloomFilter(hashes=3, bits=112)
        """
        halvings = math.log(error_percent / 100) / math.log(0.5)
        bits = math.ceil(expected * halvings * math.log2(math.e))
        return cls(math.ceil(halvings), (bits + 7) // 8 * 8)

    def positions(self, key: str) -> tuple[int, ...]:
        """The bits of a key, in the order in which they are computed; some may be the same."""
        hashed = murmur3_64(key.encode())
        first, second = hashed & 0xFFFF_FFFF, hashed >> 32
        found = []
        for place in range(1, self.hashes + 1):
            combined = (first + place * second) & 0xFFFF_FFFF
            found.append((combined if combined < 0x8000_0000 else ~combined & 0xFFFF_FFFF) % self.bits)
        return tuple(found)

    def bit_map(self, key: str) -> bytes:
        """A map with only the bits of the key set; bit p is bit p % 8 of byte p // 8."""
        number = 0
        for position in self.positions(key):
            number |= 1 << position
        return number.to_bytes(self.bits // 8, "little")


def murmur3_64(key: bytes) -> int:
    """The first 64 bits of MurmurHash3 x64 128 with seed 0.

    >>> murmur3_64(b"")
    0
    """
    h1 = h2 = 0
    whole = len(key) // 16 * 16
    for start in range(0, whole, 16):
        k1, k2 = _word(key[start : start + 8]), _word(key[start + 8 : start + 16])
        h1 = ((_rotated(h1 ^ _mixed_1(k1), 27) + h2) * 5 + 0x52DC_E729) & _WORD
        h2 = ((_rotated(h2 ^ _mixed_2(k2), 31) + h1) * 5 + 0x3849_5AB5) & _WORD
    tail = key[whole:]
    h2 ^= _mixed_2(_word(tail[8:])) ^ len(key)
    h1 ^= _mixed_1(_word(tail[:8])) ^ len(key)
    h1 = (h1 + h2) & _WORD
    h2 = (h2 + h1) & _WORD
    return (_finished(h1) + _finished(h2)) & _WORD


def _word(part: bytes) -> int:
    return int.from_bytes(part, "little")


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (64 - by)) & _WORD


def _mixed_1(word: int) -> int:
    return _rotated(word * _C1 & _WORD, 31) * _C2 & _WORD


def _mixed_2(word: int) -> int:
    return _rotated(word * _C2 & _WORD, 33) * _C1 & _WORD


def _finished(word: int) -> int:
    word = (word ^ word >> 33) * 0xFF51_AFD7_ED55_8CCD & _WORD
    word = (word ^ word >> 33) * 0xC4CE_B9FE_1A85_EC53 & _WORD
    return word ^ word >> 33

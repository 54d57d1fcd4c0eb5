"""Sets of ordinals as bytes: what was packed is unpacked, in the shorter of two forms, byte for byte."""

import pytest
from tagcast.rows.ordinals import pack, unpack


@pytest.mark.parametrize(
    ("members", "packed"),
    [
        ((), b"\x00"),
        ((0,), b"\x00\x00"),
        ((5,), b"\x00\x05"),
        ((0, 2, 3, 4), b"\x01\x1d"),
        ((127,), b"\x00\x7f"),
        ((128,), b"\x00\x80\x01"),
        ((255,), b"\x00\xff\x01"),
        ((256, 257), b"\x00\x80\x02\x00"),
        ((0, 200), b"\x00\x00\xc7\x01"),
        ((16_511,), b"\x00\xff\x80\x01"),
        (range(16), b"\x01\xff\xff"),
    ],
)
def test_each_set_has_the_bytes_it_always_had(members: tuple[int, ...], packed: bytes) -> None:
    assert pack(members) == packed
    assert unpack(packed) == frozenset(members)


@pytest.mark.parametrize("gap", [1, 2, 63, 64, 126, 127, 128, 129, 254, 255, 256, 257, 16_383, 16_384, 2_097_152])
def test_members_at_any_distance_are_found_again(gap: int) -> None:
    for first in (0, 1, 127, 128):
        members = frozenset(first + gap * place for place in range(5))

        assert unpack(pack(members)) == members

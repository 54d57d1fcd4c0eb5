"""A body is stored deflated if that makes its row enough smaller. Readers get the body that was sent."""

import tracemalloc
import zlib
from random import Random

import pytest
from tagcast.model import BODY_BYTES_MAX
from tagcast.rows.keys import message_key
from tagcast.rows.message import DEFLATED_FROM_BYTES, SAVED_BYTES_MIN, deflate_body, inflate_body

from tests.fakes.world import FakeWorld


def test_a_short_or_dense_body_is_stored_as_it_is(fake: FakeWorld) -> None:
    assert deflate_body(Random(1).randbytes(BODY_BYTES_MAX)) is None
    assert deflate_body(b"x" * (DEFLATED_FROM_BYTES - 1)) is None
    assert deflate_body(b"x" * DEFLATED_FROM_BYTES) == zlib.compress(b"x" * DEFLATED_FROM_BYTES)
    fake.subscribe("A")
    [message_id] = fake.publish("short")
    row = fake.store.rows[message_key("test1", message_id)]
    assert (row["body"], "deflated" in row) == (b"short", False)


def test_a_body_is_deflated_from_the_byte_on_that_saves_enough() -> None:
    same = b"x" * 200
    noise = Random(2).randbytes(400)
    bodies = [noise + same[:length] for length in range(201)]
    saved = [len(body) - len(zlib.compress(body)) for body in bodies]

    assert [deflate_body(body) is not None for body in bodies] == [each >= SAVED_BYTES_MIN for each in saved]
    assert SAVED_BYTES_MIN in saved


def test_no_more_than_the_largest_body_is_inflated() -> None:
    largest = b"x" * BODY_BYTES_MAX
    assert inflate_body(zlib.compress(largest)) == largest

    hostile = zlib.compress(b"x" * 10**8)
    tracemalloc.start()
    with pytest.raises(zlib.error):
        inflate_body(hostile)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 4 * BODY_BYTES_MAX


def test_what_is_not_one_whole_body_is_refused() -> None:
    packed = zlib.compress(b"x" * 1024)

    for spoiled in (packed[:-1], zlib.compress(b"x" * (BODY_BYTES_MAX + 1)), packed[:5] + b"?" + packed[6:]):
        with pytest.raises(zlib.error):
            inflate_body(spoiled)

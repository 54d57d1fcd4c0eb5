"""How a form is decoded: as `urllib` does it, but in little room, and half an escape is refused."""

from __future__ import annotations

import time
import tracemalloc
from urllib.parse import parse_qsl, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tagcast_aws.api.limits import REQUEST_BYTES_MAX
from tagcast_aws.cmq.errors import CmqError
from tagcast_aws.cmq.form import parameters_in

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
ANY_WAY = (lambda text: quote_plus(text), lambda text: "".join(f"%{byte:02x}" for byte in text.encode()))


@given(st.dictionaries(NAMES, st.text(st.characters(exclude_categories=["Cs"])), min_size=1), st.sampled_from(ANY_WAY))
def test_what_a_client_wrote_is_read(parameters: dict[str, str], written: object) -> None:
    assert callable(written)
    form = "&".join(f"{written(name)}={written(value)}" for name, value in parameters.items()).encode()

    assert parameters_in(form) == parameters == dict(parse_qsl(form.decode(), keep_blank_values=True))


@given(st.text(st.sampled_from("a%4=1+&_é\r\n -.~"), min_size=1).map(str.encode))
def test_any_text_is_read_as_urllib_reads_it_or_refused(content: bytes) -> None:
    try:
        found = parameters_in(content)
    except CmqError:
        return
    assert list(found.items()) == parse_qsl(content.decode(), keep_blank_values=True, errors="strict")


@pytest.mark.parametrize("content", [b"a=%", b"a=%4", b"a=%zz", b"%=a", b"a=%ff", b"a=\xff"])
def test_half_an_escape_and_what_is_no_text_are_refused(content: bytes) -> None:
    with pytest.raises(CmqError):
        parameters_in(content)


@pytest.mark.parametrize("repeated", [b"%41", b"b%41", b"=", b"+"])
def test_the_largest_form_takes_little_time_and_room(repeated: bytes) -> None:
    content = b"a=" + repeated * ((REQUEST_BYTES_MAX - 2) // len(repeated))
    tracemalloc.start()
    began = time.process_time()

    parameters_in(content)

    assert time.process_time() - began < 1.0  # Decoding under the tracer; some 0.1 s without it.
    assert tracemalloc.get_traced_memory()[1] < 50_000_000
    tracemalloc.stop()

"""Whatever comes is answered in CMQ's words, and what is refused leaves nothing behind."""

from __future__ import annotations

from hypothesis import given, settings

from tests.cmq.forms import ANYTHING, FILTER_TYPES, NATIVE_FILTERS, REQUESTS, play_signed, play_unsigned


@settings(max_examples=150)
@given(REQUESTS, FILTER_TYPES, NATIVE_FILTERS)
def test_no_form_breaks_the_endpoint_or_leaves_anything_behind(
    requests: list[tuple[str, dict[str, str]]], filter_type: str, native: dict[str, object] | None
) -> None:
    play_signed(requests, filter_type, native)


@settings(max_examples=100)
@given(ANYTHING)
def test_what_nobody_signed_is_refused_and_stores_nothing(text: str) -> None:
    play_unsigned(text)

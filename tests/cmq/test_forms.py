"""Forms that no client sends: whatever comes is answered in CMQ's words, and what is refused leaves nothing behind."""

from __future__ import annotations

from urllib.parse import urlencode

from hypothesis import given, settings
from hypothesis import strategies as st
from tagcast_aws.cmq.desk import _ACTIONS

from tests.cmq.asking import Asking, event_of, pair_of

NAMES = (
    *("topicName", "subscriptionName", "protocol", "endpoint", "notifyStrategy", "notifyContentFormat", "filterType"),
    *("maxMsgSize", "searchWord", "offset", "limit", "msgBody", "routingKey", "clientRequestId"),
)
ARRAYS = ("msgBody", "msgTag", "filterTag", "bindingKey")
TEXTS = st.one_of(
    st.sampled_from(
        ["t", "s", "", "a.*.#", "a.b", "http", "queue", "http://example.test/", "q", "JSON", "SIMPLIFIED", "apple", "0"]
    ),
    st.sampled_from(["1", "2", "-1", "20", "65536", "BACKOFF_RETRY", "@all", "a b", "世界", "\x00", "x" * 65]),
    st.text(max_size=20),
    st.integers(-(2**70), 2**70).map(str),
)
FIELDS = st.dictionaries(
    st.one_of(
        st.sampled_from(NAMES),
        st.builds("{}.{}".format, st.sampled_from(ARRAYS), st.one_of(st.integers(-1, 17), st.text(max_size=3))),
    ),
    TEXTS,
    max_size=8,
)
ACTIONS = st.sampled_from(sorted(_ACTIONS))
NATIVE_TAGS = st.one_of(st.none(), st.just({"kind": "sql92", "expression": "price > 5"}))


@settings(max_examples=150)
@given(st.lists(st.tuples(ACTIONS, FIELDS), min_size=1, max_size=4), st.sampled_from(["1", "2"]), NATIVE_TAGS)
def test_no_form_breaks_the_endpoint_or_leaves_anything_behind(
    requests: list[tuple[str, dict[str, str]]], filter_type: str, native: dict[str, object] | None
) -> None:
    asking = Asking()
    asking.ask("CreateTopic", topicName="t", filterType=filter_type)
    asking.fake.subscribe("s", topic="t", filter=native)
    for action, fields in requests:
        before = asking.stored()
        likely = {"topicName": "t", "subscriptionName": "s", "protocol": "http", "endpoint": "http://e.test/"}

        answer = asking.serve(event_of(asking.signed({**likely, **fields, "Action": action})))

        assert pair_of(answer) != (6000, 10050), answer
        if answer["code"]:
            assert asking.stored() == before
    asking.fake.deliver()


ANYTHING = st.one_of(
    st.text(),
    st.text(st.characters(categories=["Cs"])),
    st.binary().map(lambda octets: octets.decode("latin-1")),
    FIELDS.map(urlencode),
)


@settings(max_examples=100)
@given(ANYTHING)
def test_what_nobody_signed_is_refused_and_stores_nothing(text: str) -> None:
    asking = Asking()
    for method in ("POST", "GET"):
        answer = asking.serve(event_of(text, method=method))

        assert answer["code"] in (4000, 4100)
    assert not asking.fake.store.rows

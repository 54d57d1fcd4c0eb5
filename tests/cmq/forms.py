"""Forms that no client sends, as strategies, and what has to be true whatever is in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from hypothesis import strategies as st
from tagcast_aws.cmq.endpoint import _ACTIONS
from tagcast_aws.cmq.request import OF_EVERY_ACTION

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
NATIVE_FILTERS = st.one_of(st.none(), st.just({"kind": "sql92", "expression": "price > 5"}))
REQUESTS = st.lists(st.tuples(ACTIONS, FIELDS), min_size=1, max_size=4)
FILTER_TYPES = st.sampled_from(["1", "2"])
ANYTHING = st.one_of(
    st.text(),
    st.text(st.characters(categories=["Cs"])),
    st.binary().map(lambda octets: octets.decode("latin-1")),
    FIELDS.map(urlencode),
)
LIKELY = {"topicName": "t", "subscriptionName": "s", "protocol": "http", "endpoint": "http://e.test/"}
INTERNAL = (6000, 10050)


def play_signed(
    requests: Sequence[tuple[str, dict[str, str]]], filter_type: str, native: dict[str, object] | None
) -> None:
    """Ask signed requests one after the other: none is a fault of the service, and a refused one changes nothing."""
    asking = Asking()
    asking.ask("CreateTopic", topicName="t", filterType=filter_type)
    asking.fake.subscribe("s", topic="t", filter=native)
    for action, fields in requests:
        before = asking.stored()
        answer = asking.serve(event_of(asking.signed({**_known(action, {**LIKELY, **fields}), "Action": action})))
        assert pair_of(answer) != INTERNAL, answer
        if answer["code"]:
            assert asking.stored() == before
    asking.fake.deliver()
    for action in ("GetTopicAttributes", "ListSubscriptionByTopic", "GetSubscriptionAttributes", "DeleteTopic"):
        assert asking.ask(action, **_known(action.lower(), LIKELY))["code"] in (0, 4000, 4440)


def _known(action: str, fields: Mapping[str, str]) -> dict[str, str]:
    """What an action knows of these fields: all else is refused before anything of it is read."""
    known = {name.removesuffix(".n") for name in (*OF_EVERY_ACTION, *_ACTIONS[action].parameters)}
    return {name: value for name, value in fields.items() if name.partition(".")[0] in known}


def play_unsigned(text: str) -> None:
    """Ask what nobody signed: it is refused, and stores nothing."""
    asking = Asking()
    for method in ("POST", "GET"):
        assert asking.serve(event_of(text, method=method))["code"] in (4000, 4100)
    assert not asking.fake.store.rows

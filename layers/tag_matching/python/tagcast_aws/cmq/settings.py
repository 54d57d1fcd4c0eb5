"""Subscription settings in CMQ's words: endpoint, strategy, content format, tags or binding keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from tagcast.model import ContentFormat, Endpoint, FilterType, Protocol, RetryPolicy, Strategy, Topic
from tagcast.pushing.retry_delay import BACKOFF_RETRIES_DEFAULT, DECAY_RETRIES_MAX
from tagcast.resource_names import is_queue_name
from tagcast.subscription_settings import DECAY_INTERVAL_S_MAX

from tagcast_aws.api.subscriptions.endpoint import url_syntax_fault
from tagcast_aws.cmq.errors import CmqError, CmqFault
from tagcast_aws.cmq.limits import BINDING_KEYS_MAX, TAGS_MAX, URL_LENGTH_MAX
from tagcast_aws.cmq.parameters import Parameters
from tagcast_aws.runtime.settings import Home

_POLICIES = {
    Strategy.BACKOFF_RETRY: RetryPolicy(Strategy.BACKOFF_RETRY, BACKOFF_RETRIES_DEFAULT),
    Strategy.EXPONENTIAL_DECAY_RETRY: RetryPolicy(
        Strategy.EXPONENTIAL_DECAY_RETRY, DECAY_RETRIES_MAX, interval_s_max=DECAY_INTERVAL_S_MAX
    ),
}
DEFAULT_STRATEGY = _POLICIES[Strategy.EXPONENTIAL_DECAY_RETRY]
_FORMATS = {"JSON": ContentFormat.CMQ_JSON, "SIMPLIFIED": ContentFormat.CMQ_SIMPLIFIED}


def retry_policy(given: Parameters, known: RetryPolicy | None) -> RetryPolicy | None:
    """Return the retry policy that a request asks for, or None if the present policy stays.

    *known* is the present policy; None for a new subscription. It stays if the request names no strategy, or names the
    strategy of *known*. Raises CmqError for an unknown strategy.
    """
    word = given.optional("notifyStrategy")
    if word is None:
        return None
    if known is not None and known.strategy.value == word:  # The present strategy may be one that CMQ lacks.
        return None
    if word not in _POLICIES:
        raise CmqError(CmqFault.STRATEGY)
    return _POLICIES[Strategy(word)]


def content_format(given: Parameters, protocol: Protocol, known: ContentFormat | None) -> ContentFormat:
    """Return the content format of a subscription. *known* is its present format, or None if it is new.

    Over HTTP, ``notifyContentFormat`` in the request selects the format; without it, a new subscription gets JSON. CMQ
    has fewer formats, so several formats share a word (:func:`format_word`). The present format stays if the request
    has the same word, or none. For a queue the present format stays, and a new subscription gets bare bodies. Raises
    CmqError for an unknown word.
    """
    word = given.optional("notifyContentFormat")
    if word is not None and word not in _FORMATS:
        raise CmqError(CmqFault.CONTENT_FORMAT)
    if protocol not in (Protocol.HTTP, Protocol.HTTPS):
        return known or ContentFormat.CMQ_SIMPLIFIED
    if known is not None and word in (None, format_word(known)):
        return known
    return _FORMATS[word or "JSON"]


def format_word(value: ContentFormat) -> str:
    """Return CMQ's word for a format: SIMPLIFIED for bare bodies, JSON for all others.

    >>> format_word(ContentFormat.CMQ_JSON), format_word(ContentFormat.SIMPLIFIED)
    ('JSON', 'SIMPLIFIED')
    """
    match value:
        case ContentFormat.SIMPLIFIED | ContentFormat.CMQ_SIMPLIFIED:
            return "SIMPLIFIED"
        case ContentFormat.JSON | ContentFormat.CMQ_JSON | ContentFormat.CLOUDEVENTS:
            return "JSON"


@dataclass(frozen=True, slots=True)
class Filters:
    """The filters in a request; the topic's filter type selects one."""

    tags: tuple[str, ...]
    binding_keys: tuple[str, ...]

    @classmethod
    def of(cls, given: Parameters, too_many_tags: CmqFault) -> Filters:
        """Read tags and binding keys. Raises CmqError if some are invalid, with *too_many_tags* for too many tags."""
        if len(given.items("filterTag")) > TAGS_MAX and len(given.items("bindingKey")) > BINDING_KEYS_MAX:
            raise CmqError(CmqFault.FILTERS)
        return cls(
            given.tags("filterTag", TAGS_MAX, CmqError(too_many_tags, str(TAGS_MAX))),
            given.keys("bindingKey", BINDING_KEYS_MAX, CmqError(CmqFault.BINDING_KEYS)),
        )

    def read_by(self, topic: Topic) -> dict[str, object] | None:
        """Return the filter that applies to subscriptions of *topic*, or None if there is none."""
        if topic.filter_type is FilterType.ROUTING_KEY:
            return {"kind": "routing_key", "patterns": list(self.binding_keys)} if self.binding_keys else None
        return {"kind": "tags", "tags": list(self.tags)} if self.tags else None


def format_filter(value: Mapping[str, object] | None) -> dict[str, object]:
    """Return a filter's tags, under both names that clients use, and its binding keys. All are empty for other filters.

    >>> format_filter({"kind": "tags", "tags": ["apple"]})
    {'filterTag': ['apple'], 'filterTags': ['apple'], 'bindingKey': []}
    """
    kind = None if value is None else value["kind"]
    tags = list(cast("list[str]", value["tags"])) if value is not None and kind == "tags" else []
    keys = list(cast("list[str]", value["patterns"])) if value is not None and kind == "routing_key" else []
    return {"filterTag": tags, "filterTags": tags, "bindingKey": keys}


QUEUE = "queue"
_OF_URLS = {"http": Protocol.HTTP, "https": Protocol.HTTPS}


def endpoint_of(given: Parameters, home: Home) -> Endpoint:
    """Return the endpoint in a request. Raises CmqError for a malformed one."""
    protocol, target = given.text("protocol").lower(), given.text("endpoint")
    if protocol == QUEUE:
        if not is_queue_name(target):
            raise CmqError(CmqFault.ENDPOINT_FORMAT, "not the name of an SQS queue")
        return Endpoint(Protocol.SQS, home.queue_arn(target))
    if protocol not in _OF_URLS:
        raise CmqError(CmqFault.PROTOCOL)
    if any(character.isspace() for character in target):
        raise CmqError(CmqFault.BLANK_IN_URL)
    if len(target) > URL_LENGTH_MAX:
        raise CmqError(CmqFault.OUT_OF_RANGE, "endpoint")
    if (fault := url_syntax_fault(target, (protocol,))) is not None:
        raise CmqError(CmqFault.ENDPOINT_FORMAT, fault)
    return Endpoint(_OF_URLS[protocol], target)


def format_endpoint(endpoint: Endpoint) -> dict[str, object]:
    """Return protocol and endpoint in CMQ's form: a queue by its name alone.

    >>> format_endpoint(Endpoint(Protocol.SQS, "arn:aws:sqs:eu-west-1:123456789012:orders"))
    {'protocol': 'queue', 'endpoint': 'orders'}
    """
    if endpoint.protocol is Protocol.SQS:
        return {"protocol": QUEUE, "endpoint": endpoint.target.replace(":", "/").rpartition("/")[2]}
    return {"protocol": endpoint.protocol.value, "endpoint": endpoint.target}

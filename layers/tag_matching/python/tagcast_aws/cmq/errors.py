"""The errors of CMQ's API: all code pairs of this endpoint, and the core errors they represent."""

from __future__ import annotations

from enum import Enum

from tagcast.errors import InvalidRequestError, NotFoundError, TooLargeError, UnmatchedError

from tagcast_aws.api.http.problems import problem_of


class CmqFault(Enum):
    """An error of CMQ: code, module code and text. The error's subject replaces the braces in the text."""

    INVALID = (4000, 10000, "invalid request parameters: {}")
    NOTHING_GIVEN = (4000, 10010, "lacked of required parameters")
    NO_ACTION = (4000, 10280, "action is not existed")
    KEY_FORMAT = (4000, 10310, "parameter {} key format error")
    UNKNOWN_PARAMETER = (4000, 10320, "unknown parameter {}")
    REPEATED = (4000, 10330, "parameter {} is not a repeatable parameter")
    OUT_OF_RANGE = (4000, 10350, "parameter {} value or length is out of range")
    TYPE = (4000, 10360, "parameter {} error type")
    BATCH_SIZE = (4000, 10370, "{} parameter batch size is out of range")
    NOT_CONSECUTIVE = (4000, 10380, "{} parameter is not consequent")
    LACKS = (4000, 10390, "lacked of required parameter {}")
    NOTHING_IN_URI = (4000, 10400, "cannot find parameter {} in uri")
    METHOD = (4000, 10410, "unexpected http {}, only GET or POST is supported")
    UNREADABLE = (4000, 10420, "the request cannot be parsed or is larger than 1 MB: {}")
    UNKNOWN_ACTION = (4000, 10430, "action name {} is not existed")
    ACCOUNT = (4000, 10440, "illegal account: a request is signed with a key of its account")
    SECRET_ID = (4000, 10450, "secretId must begin with AKID")
    EMPTY_BODY = (4000, 10120, "{} must have at least one byte")
    TAGS_OF_SUBSCRIBE = (4000, 10490, "number of filterTag exceeds {}")
    ENDPOINT_FORMAT = (4000, 10500, "endpoint format error: {}")
    PROTOCOL = (4000, 10510, "undefined protocol")
    STRATEGY = (4000, 10520, "undefined notify retry strategy")
    CONTENT_FORMAT = (4000, 10530, "undefined notify content format")
    HAS_SUBSCRIPTIONS = (4000, 10540, "the topic still has subscriptions")
    SUBSCRIPTION_NAME = (4000, 10580, "subscription name format error")
    TOPIC_NAME = (4000, 10590, "topic name format error")
    SUBSCRIPTION_NAME_LENGTH = (4000, 10620, "subscription name has more than 64 characters")
    ILLEGAL_ENDPOINT = (4000, 10630, "illegal endpoint: {}")
    FILTER_TAGS = (4000, 10670, "too many filterTag")
    BINDING_KEYS = (4000, 10680, "too many bindingKey")
    DOTS = (4000, 10691, "too many dots in {}")
    NO_ROUTING_KEY = (4000, 10700, "parameters lack of routingKey")
    NO_BINDING_KEY = (4000, 10710, "parameters lack of bindingKey")
    MESSAGE_TAGS = (4000, 10720, "too many msgTag")
    SIGNATURE = (4100, 10030, "authentication failed: {}")
    REVOKED = (4100, 10080, "the secretId was revoked")
    UNKNOWN_SECRET_ID = (4100, 10270, "secretId is not existed")
    BODY_SIZE = (4400, 10230, "the message is larger than maxMsgSize")
    THROTTLED = (4420, 10250, "qps throttling: {}")
    ABSENT = (4440, 10600, "{} is not existed, or deleted")
    TOPIC_EXISTS = (4460, 10550, "topic is already existed")
    BATCH_BYTES = (4470, 10300, "the messages of the batch are larger than 1 MB together")
    BUSY = (4480, 10460, "interface frequency limit: {}")
    SUBSCRIPTION_EXISTS = (4490, 10470, "subscription is already existed")
    SUBSCRIPTIONS = (4500, 10480, "number of subscriptions has reached the limit")
    BLANK_IN_URL = (4510, 10570, "url cannot contain any blank characters")
    INTERNAL = (6000, 10050, "server internal error: {}")
    NO_SUBSCRIPTION = (6030, 10650, "the topic has no subscription")
    NO_MATCH = (6030, 10730, "no bindingKey or filterTag matches the routingKey or msgTag")
    FILTERS = (6050, 10740, "too many filterTag or bindingKey")

    @property
    def pair(self) -> tuple[int, int]:
        """The two numbers of the error: its code, such as 4000, and its module code, such as 10280."""
        return self.value[:2]


_BY_STATUS = {429: CmqFault.THROTTLED, 503: CmqFault.BUSY}
"""The faults by HTTP status, for errors of the native API that have no more precise fault."""


class CmqError(Exception):
    """A refused request, answered with the codes and the text of *fault*. *about* replaces the braces in the text."""

    def __init__(self, fault: CmqFault, *about: str) -> None:
        super().__init__(fault, *about)
        self.fault = fault
        self.about = about

    def as_json(self) -> dict[str, object]:
        """Return the fields of the answer.

        >>> CmqError(CmqFault.LACKS, "topicName").as_json()
        {'code': 4000, 'message': '(10390)lacked of required parameter topicName'}
        """
        code, module, text = self.fault.value
        return {"code": code, "message": f"({module}){text.format(*self.about)}"}


def error_of(error: Exception) -> CmqError | None:
    """Return the CMQ error that represents *error*, or None if *error* is unexpected.

    >>> error_of(NotFoundError("topic", "t")).fault.pair
    (4440, 10600)
    """
    match error:
        case CmqError():
            return error
        case NotFoundError():
            return CmqError(CmqFault.ABSENT, error.what)
        case UnmatchedError():
            return CmqError(CmqFault.NO_MATCH if error.subscriptions else CmqFault.NO_SUBSCRIPTION)
        case TooLargeError():
            return CmqError(CmqFault.BODY_SIZE)
        case InvalidRequestError():
            return CmqError(CmqFault.ILLEGAL_ENDPOINT, "; ".join(fault.detail for fault in error.faults))
    problem = problem_of(error)
    return None if problem is None else CmqError(_BY_STATUS.get(problem.status, CmqFault.INVALID), problem.detail)

"""The endpoint of a CMQ subscription: a URL, or the name of a queue in the account."""

from __future__ import annotations

from tagcast.model import Endpoint, Protocol
from tagcast.resource_names import is_queue_name

from tagcast_aws.api.subscriptions.endpoint import writing_fault
from tagcast_aws.cmq.errors import CmqError, CmqFault
from tagcast_aws.cmq.limits import URL_LENGTH_MAX
from tagcast_aws.cmq.parameters import Parameters
from tagcast_aws.runtime.home import Home

QUEUE = "queue"
_OF_URLS = {"http": Protocol.HTTP, "https": Protocol.HTTPS}


def endpoint_of(given: Parameters, home: Home) -> Endpoint:
    """Return the endpoint in a request. Raises CmqError for a malformed one."""
    protocol, target = given.text("protocol").lower(), given.text("endpoint")
    if protocol == QUEUE:
        if not is_queue_name(target):
            raise CmqError(CmqFault.ENDPOINT_FORMAT, "it is not the name of a queue")
        return Endpoint(Protocol.SQS, home.queue_arn(target))
    if protocol not in _OF_URLS:
        raise CmqError(CmqFault.PROTOCOL)
    if any(character.isspace() for character in target):
        raise CmqError(CmqFault.BLANK_IN_URL)
    if len(target) > URL_LENGTH_MAX:
        raise CmqError(CmqFault.OUT_OF_RANGE, "endpoint")
    if (fault := writing_fault(target, (protocol,))) is not None:
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

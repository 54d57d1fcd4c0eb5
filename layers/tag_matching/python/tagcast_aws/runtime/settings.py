"""The settings of a deployment from the environment that template.yaml defines for every function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tagcast.tables import Table


@dataclass(frozen=True, slots=True)
class Home:
    """The parts of an ARN that all resources of a deployment share."""

    partition: str
    region: str
    account: str

    @classmethod
    def of(cls, arn: str) -> Home:
        """Return the home of the resource with this ARN.

        >>> Home.of("arn:aws:states:eu-west-1:123456789012:stateMachine:x")
        Home(partition='aws', region='eu-west-1', account='123456789012')
        """
        _, partition, _, region, account, _ = arn.split(":", 5)
        return cls(partition, region, account)

    @property
    def origin(self) -> str:
        """The deployment's name, in DNS form, in verification requests to webhooks.

        >>> Home("aws", "eu-west-1", "123456789012").origin
        '123456789012.eu-west-1.tagcast'
        """
        return f"{self.account}.{self.region}.tagcast"

    def queue_arn(self, name: str) -> str:
        """Return the ARN of a queue of this account.

        >>> Home("aws", "eu-west-1", "123456789012").queue_arn("orders")
        'arn:aws:sqs:eu-west-1:123456789012:orders'
        """
        return f"arn:{self.partition}:sqs:{self.region}:{self.account}:{name}"


class Reach(StrEnum):
    """The addresses that endpoints may have: the values of the parameter AllowPrivateEndpoints."""

    PUBLIC = "false"
    PRIVATE = "true"
    """Also private networks, but neither loopback, where Lambda's runtime API listens, nor link-local addresses."""
    ANY = "any"


class Settings:
    """A function's settings; there are no defaults, so a variable missing in the template is an error."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Read the settings. Raises KeyError with the name of a missing variable."""
        self.tables = {Table.REGISTRY: environ["REGISTRY_TABLE"], Table.MESSAGES: environ["MESSAGES_TABLE"]}
        self.queue_url = environ["QUEUE_URL"]
        self.group_queues = environ["GROUP_QUEUES"]
        self.functions = environ["FUNCTIONS"]
        self.state_machine_arn = environ["STATE_MACHINE_ARN"]
        self.index_bucket = environ["INDEX_BUCKET"]
        self.reach = Reach(environ["ALLOW_PRIVATE_ENDPOINTS"])
        self.time_scale = float(environ["TIME_SCALE"])
        self.topic_known_s = float(environ["TOPIC_KNOWN_SECONDS"])
        self.short_wait_s = float(environ["SHORT_WAIT_SECONDS"])
        self.archive_bucket = environ["ARCHIVE_BUCKET"]
        self.archive_streams = environ["ARCHIVE_STREAMS"]
        self.archive_bodies = tuple(environ["ARCHIVE_BODIES"].replace(",", " ").split())
        self.archive_failures_url = environ["ARCHIVE_FAILURES_URL"]
        self.kept_changes = environ["KEPT_CHANGES"]
        self.cmq_keys = environ["CMQ_KEYS"]
        self.metric_topics = tuple(filter(None, environ["METRIC_TOPICS"].split(",")))
        self.secrets_key = environ["SECRETS_KEY"]
        self.signing_key = environ["SIGNING_KEY"]
        self.verification_optional = environ["ENDPOINT_VERIFICATION"] == "optional"
        self.cmq_verification = environ["CMQ_VERIFICATION"] == "true"
        self.scope_prefix = environ["JWT_SCOPE_PREFIX"]
        self.dead_letter_topics = tuple(_pairs(environ["DEAD_LETTER_TOPICS"]))
        self.waiting_max = int(environ["WAITING_PER_TOPIC"])
        self.events_to_bus = environ["EVENTS_TO_EVENT_BRIDGE"] == "true"

    @property
    def home(self) -> Home:
        """The partition, region and account of this deployment."""
        return Home.of(self.state_machine_arn)


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the pairs in *text*: commas separate the pairs, and a colon the two parts of a pair.

    >>> list(_pairs("orders-*:dead-letters,billing:billing-dead")), list(_pairs(""))
    ([('orders-*', 'dead-letters'), ('billing', 'billing-dead')], [])
    """
    for pair in filter(None, text.split(",")):
        first, _, second = pair.partition(":")
        yield first, second

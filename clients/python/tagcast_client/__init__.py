"""Publish to tagcast, manage it, and receive its webhooks.

`Client` and `AsyncClient` speak to the API; `Receiver` verifies and reads pushes, `Deduplicator` processes each once.
"""

from tagcast_client.async_client import AsyncClient
from tagcast_client.async_consumer import AsyncConsumer
from tagcast_client.async_deduplication import AsyncDeduplicator, AsyncMemoryStore, AsyncSeenStore
from tagcast_client.claims import Claim, InProgressError
from tagcast_client.client import Client
from tagcast_client.consumer import Consumer
from tagcast_client.consuming import ConsumerOptions, ConsumeStatus, Later, MessageModel, MessageSelector
from tagcast_client.deduplication import Deduplicator, MemoryStore, SeenStore
from tagcast_client.errors import (
    BatchInterruptedError,
    ConflictError,
    DisagreementError,
    Fault,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    PreconditionFailedError,
    ProblemError,
    ServerError,
    SigningError,
    TagcastError,
    ThrottledError,
    TooLargeError,
    UnexpectedAnswerError,
    UnreachableError,
)
from tagcast_client.group_models import Pulled
from tagcast_client.models import Accepted, ArchivedMessage, NewMessage, Refused
from tagcast_client.received import Received, UnreadableError, item_failures, read, read_batch
from tagcast_client.receiver import Receiver, VerificationError, VerificationFailure
from tagcast_client.retrying import Retries
from tagcast_client.signing import BearerToken, SigV4
from tagcast_client.tailing import TailWish
from tagcast_client.tracing import trace_context
from tagcast_client.version import __version__

__all__ = [
    "Accepted",
    "ArchivedMessage",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncDeduplicator",
    "AsyncMemoryStore",
    "AsyncSeenStore",
    "BatchInterruptedError",
    "BearerToken",
    "Claim",
    "Client",
    "ConflictError",
    "ConsumeStatus",
    "Consumer",
    "ConsumerOptions",
    "Deduplicator",
    "DisagreementError",
    "Fault",
    "ForbiddenError",
    "InProgressError",
    "InvalidError",
    "Later",
    "MemoryStore",
    "MessageModel",
    "MessageSelector",
    "NewMessage",
    "NotFoundError",
    "PreconditionFailedError",
    "ProblemError",
    "Pulled",
    "Received",
    "Receiver",
    "Refused",
    "Retries",
    "SeenStore",
    "ServerError",
    "SigV4",
    "SigningError",
    "TagcastError",
    "TailWish",
    "ThrottledError",
    "TooLargeError",
    "UnexpectedAnswerError",
    "UnreachableError",
    "UnreadableError",
    "VerificationError",
    "VerificationFailure",
    "__version__",
    "item_failures",
    "read",
    "read_batch",
    "trace_context",
]

"""Publish to tagcast, manage it, and receive its webhooks.

`Client` and `AsyncClient` call the API. `Receiver` verifies and reads pushes, and `Deduplicator` recognizes repeated
pushes. Only the names of this module and of `tagcast_client.testing` are public.
"""

from tagcast_client._async.client import AsyncClient as AsyncClient
from tagcast_client._async.connection import AsyncPages as AsyncPages
from tagcast_client._async.consumer import AsyncConsumer as AsyncConsumer
from tagcast_client._async.deduplication import AsyncDeduplicator as AsyncDeduplicator
from tagcast_client._async.deduplication import AsyncMemoryStore as AsyncMemoryStore
from tagcast_client._async.deduplication import AsyncSeenStore as AsyncSeenStore
from tagcast_client._sync.client import Client as Client
from tagcast_client._sync.connection import Pages as Pages
from tagcast_client._sync.consumer import Consumer as Consumer
from tagcast_client._sync.deduplication import Deduplicator as Deduplicator
from tagcast_client._sync.deduplication import MemoryStore as MemoryStore
from tagcast_client._sync.deduplication import SeenStore as SeenStore
from tagcast_client.claims import Claim as Claim
from tagcast_client.claims import InProgressError as InProgressError
from tagcast_client.consuming import ConsumerOptions as ConsumerOptions
from tagcast_client.consuming import ConsumeStatus as ConsumeStatus
from tagcast_client.consuming import Later as Later
from tagcast_client.consuming import MessageModel as MessageModel
from tagcast_client.errors import *  # noqa: F403
from tagcast_client.filters import Filter as Filter
from tagcast_client.models import *  # noqa: F403
from tagcast_client.operation import Answer as Answer
from tagcast_client.operation import Page as Page
from tagcast_client.outgoing import ArchivedMessage as ArchivedMessage
from tagcast_client.outgoing import MessageAttributes as MessageAttributes
from tagcast_client.outgoing import NewMessage as NewMessage
from tagcast_client.received import Pulled as Pulled
from tagcast_client.received import Received as Received
from tagcast_client.received import UnreadableError as UnreadableError
from tagcast_client.received import item_failures as item_failures
from tagcast_client.received import read as read
from tagcast_client.received import read_batch as read_batch
from tagcast_client.receiver import Receiver as Receiver
from tagcast_client.receiver import VerificationError as VerificationError
from tagcast_client.receiver import VerificationFailure as VerificationFailure
from tagcast_client.retrying import Retries as Retries
from tagcast_client.setting import Setting as Setting
from tagcast_client.settings import *  # noqa: F403
from tagcast_client.signing import BearerToken as BearerToken
from tagcast_client.signing import SigV4 as SigV4
from tagcast_client.tracing import trace_context as trace_context
from tagcast_client.version import __version__ as __version__

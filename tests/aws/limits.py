"""AWS's limits and latencies in one table; each figure with its source. The engine's part is `local.rules.limits`.

Pages are on https://docs.aws.amazon.com unless they begin with another host; "measured" marks figures that AWS
does not promise. Sizes are in bytes, durations in milliseconds where the name says `_MS`, else in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from local.rules.limits import *  # noqa: F403
from local.rules.limits import KIB, MIB

# DynamoDB: amazondynamodb/latest/developerguide/Constraints.html unless another page is named.
ITEM_BYTES_MAX = 400 * KIB
HASH_KEY_BYTES_MAX = 2048
RANGE_KEY_BYTES_MAX = 1024
NUMBER_DIGITS_MAX = 38
NESTING_MAX = 32
EXPRESSION_BYTES_MAX = 4 * KIB
EXPRESSION_VALUES_BYTES_MAX = 2 * MIB
PAGE_BYTES_MAX = MIB  # .../Query.Pagination.html
TRANSACTION_ITEMS_MAX = 100  # amazondynamodb/latest/APIReference/API_TransactWriteItems.html
TRANSACTION_BYTES_MAX = 4 * MIB
TRANSACTION_TOKEN_S = 600
BATCH_GET_KEYS_MAX = 100  # amazondynamodb/latest/APIReference/API_BatchGetItem.html
WRITE_UNIT_BYTES = KIB
KEY_READ_UNITS = 3_000  # .../bp-partition-key-design.html
KEY_WRITE_UNITS = 1_000
TABLE_READ_UNITS = 12_000  # a new table on demand, .../warm-throughput.html
TABLE_WRITE_UNITS = 4_000
TABLE_UNITS_MAX = 40_000  # of either kind, by default, .../ServiceQuotas.html
STREAM_RETENTION_S = 24 * 3600  # .../Streams.html
TTL_YEARS_MAX = 5  # .../howitworks-ttl.html: what expired longer ago is taken for a mistake
STALE_MS = 1_000  # .../HowItWorks.ReadConsistency.html: "usually within one second or less"
STALE_WRITES_MAX = 5
FRESH_SHARE = 0.7  # of eventual reads; chosen: staleness is to be met often

# SQS: AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html and quotas-fifo.html.
SQS_MESSAGE_BYTES_MAX = MIB
SQS_BATCH_MAX = 10
SQS_ATTRIBUTES_MAX = 10
SQS_DEDUPLICATION_S = 300
SQS_FIFO_CALLS = 300  # a second and action, without high throughput
SQS_GROUP_CALLS = 300  # the same of a partition with high throughput, and a group is in one
SQS_IN_FLIGHT_MAX = 120_000
SQS_VISIBILITY_MAX_S = 12 * 3600

# S3: AmazonS3/latest/userguide/qfacts.html and API/API_ListObjectsV2.html.
S3_KEY_BYTES_MAX = 1024

# Secrets Manager: secretsmanager/latest/userguide/reference_limits.html.
SECRET_BYTES_MAX = 65_536

# Lambda: lambda/latest/dg/gettingstarted-limits.html.
LAMBDA_CONCURRENCY = 1000
LAMBDA_CONCURRENCY_NEW = 10  # the same page: "new accounts have reduced quotas"; 10 is what owners of some report
LAMBDA_INVOCATIONS = 10  # a second for each execution that an account may have at once, lambda-concurrency.html
LAMBDA_FULL_CPU_MB = 1_769  # lambda/latest/dg/configuration-memory.html: with so much a function has a whole vCPU
FIFO_SOURCE_BATCH_MAX = 10  # lambda/latest/dg/services-sqs-configure.html
QUEUE_POLLERS = 5  # lambda/latest/dg/services-sqs-scaling.html: connections of an idle source
QUEUE_POLL_S = 20  # AWSSimpleQueueService/latest/SQSDeveloperGuide: the longest wait of a receive

# Step Functions: step-functions/latest/dg/service-quotas.html.
EXECUTION_NAME_DAYS = 90


class Quota(NamedTuple):
    """AWS's rate per second in us-east-1 (*largest*), and in the region with the lowest rate (*least*).

    *whose* is the scope of the rate. *bursts* are the sizes of both token buckets, if they differ from the rates.
    """

    whose: str
    largest: float
    least: float
    page: str
    bursts: tuple[float, float] | None = None

    def rate(self, place: QuotaPlace) -> float:
        """Return the rate for an account in a region.

        >>> QUOTAS["lambda: invocations"].rate(NEW_ACCOUNT)
        100
        """
        each = self.least if place.is_small else self.largest
        return each * place.executions if self.whose == "execution" else each

    def burst(self, place: QuotaPlace) -> float:
        """Return the size of the token bucket for an account in a region."""
        return self.rate(place) if self.bursts is None else self.bursts[place.is_small]


@dataclass(frozen=True)
class QuotaPlace:
    """An account in a region, with AWS's quotas there."""

    name: str
    is_small: bool = False
    """Whether each quota has the value of the region with the lowest rate."""
    executions: int = LAMBDA_CONCURRENCY
    partitions: int | None = None
    """The partitions of a FIFO queue; None means one per message group. AWS only says that a fresh queue has few."""


LARGE_REGION = QuotaPlace("a large region")
SMALL_REGION = QuotaPlace("the smallest region", is_small=True)
NEW_ACCOUNT = QuotaPlace("a new account", executions=LAMBDA_CONCURRENCY_NEW, partitions=1)
PLACES = (LARGE_REGION, SMALL_REGION, NEW_ACCOUNT)

_DYNAMODB = "amazondynamodb/latest/developerguide"
_FIFO = "AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html"
_STATES, _FIREHOSE = "step-functions/latest/dg/service-quotas.html", "firehose/latest/dev/limits.html"
_S3 = "AmazonS3/latest/userguide/optimizing-performance.html"
QUOTAS: dict[str, Quota] = {
    "dynamodb: read units of a key": Quota(
        "partition key", KEY_READ_UNITS, KEY_READ_UNITS, f"{_DYNAMODB}/bp-partition-key-design.html"
    ),
    "dynamodb: write units of a key": Quota(
        "partition key", KEY_WRITE_UNITS, KEY_WRITE_UNITS, f"{_DYNAMODB}/bp-partition-key-design.html"
    ),
    "dynamodb: read units of a table": Quota(
        "table", TABLE_UNITS_MAX, TABLE_UNITS_MAX, f"{_DYNAMODB}/ServiceQuotas.html"
    ),
    "dynamodb: write units of a table": Quota(
        "table", TABLE_UNITS_MAX, TABLE_UNITS_MAX, f"{_DYNAMODB}/ServiceQuotas.html"
    ),
    "sqs: calls to a FIFO queue": Quota("queue and action", 70_000, 2_400, _FIFO),
    "sqs: calls to a partition of a FIFO queue": Quota("partition and action", SQS_GROUP_CALLS, SQS_GROUP_CALLS, _FIFO),
    "sqs: calls to a slow FIFO queue": Quota("queue and action", SQS_FIFO_CALLS, SQS_FIFO_CALLS, _FIFO),
    "stepfunctions: starts": Quota("account", 300, 150, _STATES, (1_300, 800)),
    "stepfunctions: transitions": Quota("workflow", 5_000, 800, _STATES),
    "firehose: bytes of a stream": Quota("stream", 5 * MIB, MIB, _FIREHOSE),
    "firehose: requests of a stream": Quota("stream", 2_000, 1_000, _FIREHOSE),
    "firehose: records of a stream": Quota("stream", 500_000, 100_000, _FIREHOSE),
    "kms: requests": Quota("account", 100_000, 10_000, "kms/latest/developerguide/requests-per-second.html"),
    "secretsmanager: reads": Quota("account", 10_000, 10_000, "secretsmanager/latest/userguide/reference_limits.html"),
    "events: puts": Quota("account", 10_000, 400, "eventbridge/latest/userguide/eb-quota.html"),
    "s3: reads": Quota("bucket", 5_500, 5_500, _S3),  # Of a prefix; all of a bucket may be in one.
    "s3: writes": Quota("bucket", 3_500, 3_500, _S3),
    "lambda: invocations": Quota(
        "execution", LAMBDA_INVOCATIONS, LAMBDA_INVOCATIONS, "lambda/latest/dg/lambda-concurrency.html"
    ),
    "apigateway: requests": Quota(
        "account", 10_000, 2_500, "apigateway/latest/developerguide/limits.html", (5_000, 1_250)
    ),
}
_READS = ("dynamodb: read units of a key", "dynamodb: read units of a table")
_WRITES = ("dynamodb: write units of a key", "dynamodb: write units of a table")
_QUEUED = ("sqs: calls to a FIFO queue", "sqs: calls to a partition of a FIFO queue", "sqs: calls to a slow FIFO queue")
_BY_AWS = "unbounded: AWS itself does it in the role's name, at its own pace"
_RARE = "unbounded: AWS publishes no rate; it is called once for a group or a look of a person"
THROUGHPUT: dict[str, tuple[str, ...] | str] = {
    # The quotas that an action of a role takes of, or why it has none; an action of S3 counts for the bucket.
    "dynamodb:BatchGetItem": _READS,
    "dynamodb:ConditionCheckItem": _WRITES,
    "dynamodb:DeleteItem": _WRITES,
    "dynamodb:DescribeStream": _BY_AWS,
    "dynamodb:GetItem": _READS,
    "dynamodb:GetRecords": _BY_AWS,
    "dynamodb:GetShardIterator": _BY_AWS,
    "dynamodb:ListStreams": _BY_AWS,
    "dynamodb:PartiQLUpdate": _WRITES,
    "dynamodb:PutItem": _WRITES,
    "dynamodb:Query": _READS,
    "dynamodb:Scan": _READS,  # Its pages come from one partition after the other: LATENCY_MS obeys the key's.
    "dynamodb:UpdateItem": _WRITES,
    "ec2:AssignPrivateIpAddresses": _BY_AWS,
    "ec2:CreateNetworkInterface": _BY_AWS,
    "ec2:DeleteNetworkInterface": _BY_AWS,
    "ec2:DescribeNetworkInterfaces": _BY_AWS,
    "ec2:DescribeSubnets": _BY_AWS,
    "ec2:UnassignPrivateIpAddresses": _BY_AWS,
    "events:PutEvents": ("events: puts",),
    "execute-api:Invoke": ("apigateway: requests",),
    "firehose:PutRecordBatch": (
        "firehose: bytes of a stream",
        "firehose: requests of a stream",
        "firehose: records of a stream",
    ),
    "kms:Decrypt": ("kms: requests",),
    "kms:Encrypt": ("kms: requests",),
    "lambda:InvokeFunction": ("lambda: invocations",),
    "logs:CreateLogGroup": _BY_AWS,
    "logs:CreateLogStream": _BY_AWS,
    "logs:PutLogEvents": _BY_AWS,
    "s3:AbortMultipartUpload": ("s3: writes",),
    "s3:DeleteObject": ("s3: writes",),
    "s3:DeleteObjectVersion": ("s3: writes",),
    "s3:GetBucketLocation": ("s3: reads",),
    "s3:GetObject": ("s3: reads",),
    "s3:ListBucket": ("s3: reads",),
    "s3:ListBucketMultipartUploads": ("s3: reads",),
    "s3:ListBucketVersions": ("s3: reads",),
    "s3:PutObject": ("s3: writes",),
    "secretsmanager:GetSecretValue": ("secretsmanager: reads",),
    "sqs:ChangeMessageVisibility": _QUEUED,
    "sqs:CreateQueue": _RARE,
    "sqs:DeleteMessage": _QUEUED,
    "sqs:DeleteQueue": _RARE,
    "sqs:GetQueueAttributes": _RARE,
    "sqs:ListQueues": _RARE,
    "sqs:ReceiveMessage": _QUEUED,
    "sqs:SendMessage": _QUEUED,
    "states:StartExecution": ("stepfunctions: starts", "stepfunctions: transitions"),
    "sts:AssumeRole": _BY_AWS,
}
ACTIONS = {
    # Operations whose action has another name; that of a batch is the one of its entries.
    ("dynamodb", "BatchExecuteStatement"): ("dynamodb:PartiQLUpdate",),
    ("dynamodb", "TransactWriteItems"): ("dynamodb:ConditionCheckItem", "dynamodb:DeleteItem", "dynamodb:PutItem"),
    ("sqs", "SendMessageBatch"): ("sqs:SendMessage",),
    ("sqs", "DeleteMessageBatch"): ("sqs:DeleteMessage",),
    ("sqs", "ChangeMessageVisibilityBatch"): ("sqs:ChangeMessageVisibility",),
    ("s3", "HeadBucket"): ("s3:ListBucket",),
    ("s3", "HeadObject"): ("s3:GetObject",),
    ("s3", "ListObjectsV2"): ("s3:ListBucket",),
    ("s3", "ListObjectVersions"): ("s3:ListBucketVersions",),
    ("s3", "DeleteObjects"): ("s3:DeleteObject", "s3:DeleteObjectVersion"),
    ("lambda", "Invoke"): ("lambda:InvokeFunction",),
    ("stepfunctions", "StartExecution"): ("states:StartExecution",),
}

# What AWS does not document: each history draws from the range, and documents quote its worse end.
STREAM_FIRST_PAUSE_MS = (10, 5_000)  # before the first repetition of a batch of a stream; then twice as long each time
STREAM_LONGEST_PAUSE_MS = (1_000, 600_000)
QUEUE_GROWTH_A_MINUTE = (300, 60_000)  # connections that a busy source of a FIFO queue gains; 300 is a standard queue's
LAMBDA_SLEEPS_S = (60, 8 * 3_600)  # how long an environment that has nothing to do lives at most
EXPIRED_LATE_S = (0, 3 * 86_400)  # "within a few days"; TTL_LATE_S is what bills reckon with

# X-Ray: xray/latest/devguide/xray-console-sampling.html: the default rule, beyond the first request of a second.
XRAY_SAMPLED = 0.05

LATENCY_MS: dict[tuple[str, str], tuple[float, float]] = {
    # Milliseconds of one call within a region, measured; "*" stands for all other operations of the service.
    ("dynamodb", "*"): (3, 6),
    ("dynamodb", "TransactWriteItems"): (5, 10),  # and TRANSACTION_COMMIT_MS, while its rows are held
    ("dynamodb", "BatchGetItem"): (4, 10),
    ("dynamodb", "BatchWriteItem"): (5, 12),
    ("dynamodb", "BatchExecuteStatement"): (5, 12),  # chosen: as the other batch of writes
    ("dynamodb", "Scan"): (43, 80),  # of a page of 1 MB: 128 units of a partition, which gives so many in that time
    ("sqs", "*"): (5, 15),
    ("s3", "*"): (15, 40),
    ("firehose", "*"): (10, 30),
    ("kms", "*"): (3, 12),
    ("secretsmanager", "*"): (8, 25),
    ("lambda", "*"): (5, 10),
    ("stepfunctions", "*"): (15, 40),
    ("events", "*"): (10, 30),
    ("apigateway", "*"): (4, 10),  # chosen: what an HTTP API adds to its function; AWS promises nothing
}
TRANSACTION_COMMIT_MS = (3, 5)
# The runtime's own start, chosen as 100 to 250, and the imports, measured by `python -m tests.benchmarks.cold_import`
# (140 to 320 ms of a whole processor): with a whole one while it starts, or with the share of 512 MB. AWS says neither.
LAMBDA_COLD_MS = (250, 1_350)
QUEUE_SOURCE_MS = (5, 30)
STREAM_SOURCE_MS = (100, 300)
TRANSITION_MS = (20, 50)


def latency(service: str, operation: str) -> tuple[float, float]:
    """Return the range of a call's duration in milliseconds."""
    found = LATENCY_MS.get((service, operation))
    return LATENCY_MS[service, "*"] if found is None else found


def actions_of(service: str, operation: str) -> tuple[str, ...]:
    """Return the actions that a role needs for an operation, in a policy's terms.

    >>> actions_of("sqs", "SendMessageBatch"), actions_of("kms", "Decrypt")
    (('sqs:SendMessage',), ('kms:Decrypt',))
    """
    return ACTIONS.get((service, operation), (f"{service}:{operation}",))

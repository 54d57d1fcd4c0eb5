"""The one table of what AWS allows, how long a call takes and what it costs; each figure with the page that says so.

Pages are those of https://docs.aws.amazon.com unless they begin with another host; "measured" stands where AWS promises
nothing. Sizes are in bytes, durations in milliseconds where the name says `_MS`, else in seconds.
"""

from __future__ import annotations

KIB, MIB = 1024, 1024 * 1024

# DynamoDB: amazondynamodb/latest/developerguide/Constraints.html unless another page is named.
ITEM_BYTES_MAX = 400 * KIB
HASH_KEY_BYTES_MAX = 2048
RANGE_KEY_BYTES_MAX = 1024
NUMBER_DIGITS_MAX = 38
NESTING_MAX = 32
EXPRESSION_BYTES_MAX = 4 * KIB
EXPRESSION_VALUES_BYTES_MAX = 2 * MIB
OPERANDS_OF_IN_MAX = 100
PAGE_BYTES_MAX = MIB  # .../Query.Pagination.html
TRANSACTION_ITEMS_MAX = 100  # amazondynamodb/latest/APIReference/API_TransactWriteItems.html
TRANSACTION_BYTES_MAX = 4 * MIB
TRANSACTION_TOKEN_S = 600
BATCH_GET_KEYS_MAX = 100  # amazondynamodb/latest/APIReference/API_BatchGetItem.html
BATCH_GET_BYTES_MAX = 16 * MIB
BATCH_WRITE_ITEMS_MAX = 25  # amazondynamodb/latest/APIReference/API_BatchWriteItem.html
BATCH_WRITE_BYTES_MAX = 16 * MIB
BATCH_STATEMENTS_MAX = 25  # amazondynamodb/latest/APIReference/API_BatchExecuteStatement.html
READ_UNIT_BYTES = 4 * KIB
WRITE_UNIT_BYTES = KIB
KEY_READ_UNITS = 3_000  # .../bp-partition-key-design.html
KEY_WRITE_UNITS = 1_000
TABLE_READ_UNITS = 12_000  # a new table on demand, .../warm-throughput.html
TABLE_WRITE_UNITS = 4_000
TABLE_UNITS_MAX = 40_000  # of either kind, by default, .../ServiceQuotas.html
STREAM_RETENTION_S = 24 * 3600  # .../Streams.html
STREAM_READERS_MAX = 2
TTL_LATE_S = 2 * 86_400  # .../TTL.html: "within a few days of their expiration"; taken for the worst case
TTL_YEARS_MAX = 5  # .../howitworks-ttl.html: what expired longer ago is taken for a mistake
STALE_MS = 1_000  # .../HowItWorks.ReadConsistency.html: "usually within one second or less"
STALE_WRITES_MAX = 5
FRESH_SHARE = 0.7  # of eventual reads; chosen: staleness is to be met often

# SQS: AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html and quotas-fifo.html.
SQS_MESSAGE_BYTES_MAX = MIB
SQS_BATCH_MAX = 10
SQS_ATTRIBUTES_MAX = 10
SQS_ID_CHARS_MAX = 80
SQS_GROUP_CHARS_MAX = 128
SQS_DEDUPLICATION_S = 300
SQS_FIFO_CALLS = 300  # a second and action, without high throughput
SQS_GROUP_CALLS = 300  # the same of a partition with high throughput, and a group is in one
SQS_IN_FLIGHT_MAX = 120_000
SQS_VISIBILITY_MAX_S = 12 * 3600

# S3: AmazonS3/latest/userguide/qfacts.html and API/API_ListObjectsV2.html.
S3_PUT_BYTES_MAX = 5 * 1024 * MIB
S3_KEY_BYTES_MAX = 1024
S3_LIST_MAX = 1000

# Firehose: firehose/latest/dev/limits.html.
FIREHOSE_RECORD_BYTES_MAX = 1000 * KIB
FIREHOSE_BATCH_MAX = 500
FIREHOSE_BATCH_BYTES_MAX = 4 * MIB
# A second, of direct puts to one stream; LARGE is us-east-1, us-west-2 and eu-west-1, the others are the rest.
FIREHOSE_STREAM_BYTES = MIB
FIREHOSE_STREAM_BYTES_LARGE = 5 * MIB
FIREHOSE_STREAM_REQUESTS = 1_000
FIREHOSE_STREAM_REQUESTS_LARGE = 2_000
FIREHOSE_STREAM_RECORDS = 100_000
FIREHOSE_STREAM_RECORDS_LARGE = 500_000

# KMS: kms/latest/APIReference/API_Encrypt.html and API_GenerateDataKey.html.
KMS_PLAINTEXT_BYTES_MAX = 4096
KMS_DATA_KEY_BYTES_MAX = 1024

# Secrets Manager: secretsmanager/latest/userguide/reference_limits.html.
SECRET_BYTES_MAX = 65_536
SECRET_RECOVERY_DAYS = (7, 30)

# Lambda: lambda/latest/dg/gettingstarted-limits.html.
LAMBDA_PAYLOAD_BYTES_MAX = 6 * MIB  # request and answer of a synchronous invocation, and the batch of a source
LAMBDA_EVENT_BYTES_MAX = MIB
LAMBDA_TIMEOUT_MAX_S = 900
LAMBDA_SOCKETS_MAX = 1024
LAMBDA_CONCURRENCY = 1000
LAMBDA_FULL_CPU_MB = 1_769  # lambda/latest/dg/configuration-memory.html: with so much a function has a whole vCPU
LAMBDA_GROWTH_IN_10_S = 1000  # lambda/latest/dg/lambda-concurrency.html
FIFO_SOURCE_BATCH_MAX = 10  # lambda/latest/dg/services-sqs-configure.html
QUEUE_POLLERS = 5  # lambda/latest/dg/services-sqs-scaling.html: connections of an idle source
QUEUE_POLL_S = 20  # AWSSimpleQueueService/latest/SQSDeveloperGuide: the longest wait of a receive
SOURCE_RECORD_AGE_MAX_S = 7 * 86_400

# Step Functions: step-functions/latest/dg/service-quotas.html.
EXECUTION_EVENTS_MAX = 25_000
EXECUTION_INPUT_BYTES_MAX = 256 * KIB
EXECUTION_NAME_DAYS = 90
START_EXECUTION_BUCKET = 1_300
START_EXECUTION_A_SECOND = 300

# API Gateway: apigateway/latest/developerguide/http-api-quotas.html.
HTTP_API_PAYLOAD_BYTES_MAX = 10 * MIB
HTTP_API_TIMEOUT_S = 30
API_REQUESTS = 10_000  # a second, of an account and region, by default, apigateway/latest/developerguide/limits.html

# X-Ray: xray/latest/devguide/xray-console-sampling.html: the default rule, beyond the first request of a second.
XRAY_SAMPLED = 0.05

LATENCY_MS: dict[tuple[str, str], tuple[float, float]] = {
    # Milliseconds of one call within a region, measured; "*" stands for all other operations of the service.
    ("dynamodb", "*"): (3, 6),
    ("dynamodb", "TransactWriteItems"): (5, 10),  # and TRANSACTION_COMMIT_MS, while its rows are held
    ("dynamodb", "BatchGetItem"): (4, 10),
    ("dynamodb", "BatchWriteItem"): (5, 12),
    ("dynamodb", "BatchExecuteStatement"): (5, 12),  # chosen: as the other batch of writes
    ("dynamodb", "Scan"): (43, 80),  # of a page of 1 MB: 128 units of a partition that gives 3,000 a second
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

PRICES_USD: dict[str, float] = {
    # us-east-1; the page is https://aws.amazon.com/<service>/pricing.
    "dynamodb: a million write request units": 0.625,
    "dynamodb: a million read request units": 0.125,
    "dynamodb: a GB and month": 0.25,
    "dynamodb: a GB and month of point-in-time recovery": 0.20,
    "sqs: a million FIFO requests of 64 KiB": 0.50,
    "sqs: a million standard requests of 64 KiB": 0.40,
    "api gateway: a million requests of an HTTP API": 1.00,
    "lambda: a million requests": 0.20,
    "lambda: a GB-second on arm64": 0.0000133334,
    "stepfunctions: a million transitions": 25.0,
    "athena: a TB scanned": 5.00,
    "s3: a GB and month": 0.023,
    "s3: a GB and month of Glacier Instant Retrieval": 0.004,
    "s3: a thousand transitions to Glacier Instant Retrieval": 0.02,
    "s3: a thousand PUTs": 0.005,
    "s3: a thousand GETs": 0.0004,
    "firehose: a GB": 0.029,
    "cloudwatch: a GB of logs": 0.50,
    "cloudwatch: a GB and month of logs": 0.03,
    "cloudwatch: an alarm and month": 0.10,
    "cloudwatch: a dashboard and month": 3.00,
    "cloudwatch: a metric and month": 0.30,
    "x-ray: a million traces": 5.00,
    "events: a million events of an application": 1.00,
    "glue: a DPU-hour": 0.44,
    "kms: a key and month": 1.00,
    "kms: a rotation and month": 1.00,  # of each of a key's first two: https://aws.amazon.com/kms/pricing
    "kms: ten thousand requests": 0.03,
    "secretsmanager: a secret and month": 0.40,
    "secretsmanager: ten thousand requests": 0.05,
}


def latency(service: str, operation: str) -> tuple[float, float]:
    """The range of a call's duration in milliseconds."""
    found = LATENCY_MS.get((service, operation))
    return LATENCY_MS[service, "*"] if found is None else found

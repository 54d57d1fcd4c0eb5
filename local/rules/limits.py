"""AWS's limits that the engine enforces, and the prices of its estimates. Each number has its source.

A source without a host is a page on https://docs.aws.amazon.com. Sizes are in bytes, durations in seconds.
"""

from __future__ import annotations

KIB, MIB = 1024, 1024 * 1024

# DynamoDB: amazondynamodb/latest/developerguide/Constraints.html unless another page is named.
BATCH_GET_BYTES_MAX = 16 * MIB
BATCH_STATEMENTS_MAX = 25  # amazondynamodb/latest/APIReference/API_BatchExecuteStatement.html
READ_UNIT_BYTES = 4 * KIB
TTL_LATE_S = 2 * 86_400  # .../TTL.html: "within a few days of their expiration"; for estimates of costs

# Firehose: firehose/latest/dev/limits.html.
FIREHOSE_RECORD_BYTES_MAX = 1000 * KIB
FIREHOSE_BATCH_MAX = 500
FIREHOSE_BATCH_BYTES_MAX = 4 * MIB

# Lambda: lambda/latest/dg/gettingstarted-limits.html.
LAMBDA_PAYLOAD_BYTES_MAX = 6 * MIB  # request and answer of a synchronous invocation, and the batch of a source
LAMBDA_EVENT_BYTES_MAX = MIB

# Step Functions: step-functions/latest/dg/service-quotas.html.
EXECUTION_EVENTS_MAX = 25_000
EXECUTION_INPUT_BYTES_MAX = 256 * KIB

# API Gateway: apigateway/latest/developerguide/http-api-quotas.html.
HTTP_API_PAYLOAD_BYTES_MAX = 10 * MIB
HTTP_API_HEAD_BYTES_MAX = 10_240  # the request line and the values of all headers together
HTTP_API_TIMEOUT_S = 30

PRICES_USD: dict[str, float] = {
    # us-east-1; the page is https://aws.amazon.com/<service>/pricing.
    "dynamodb: a million write request units": 0.625,
    "dynamodb: a million read request units": 0.125,
    "sqs: a million FIFO requests of 64 KiB": 0.50,
    "api gateway: a million requests of an HTTP API": 1.00,
    "lambda: a million requests": 0.20,
    "lambda: a GB-second on arm64": 0.0000133334,
    "stepfunctions: a million transitions": 25.0,
    "firehose: a GB": 0.029,
    "glue: a DPU-hour": 0.44,
}

"""AWS's prices in one table. The part for estimates is `local.rules.limits`."""

from local.rules import limits

PRICES_USD: dict[str, float] = {
    # us-east-1; the page is https://aws.amazon.com/<service>/pricing.
    **limits.PRICES_USD,
    "dynamodb: a GB and month": 0.25,
    "dynamodb: a GB and month of point-in-time recovery": 0.20,
    "sqs: a million standard requests of 64 KiB": 0.40,
    "athena: a TB scanned": 5.00,
    "s3: a GB and month": 0.023,
    "s3: a GB and month of Glacier Instant Retrieval": 0.004,
    "s3: a thousand transitions to Glacier Instant Retrieval": 0.02,
    "s3: a thousand PUTs": 0.005,
    "s3: a thousand GETs": 0.0004,
    "cloudwatch: a GB of logs": 0.50,
    "cloudwatch: a GB and month of logs": 0.03,
    "cloudwatch: an alarm and month": 0.10,
    "cloudwatch: a dashboard and month": 3.00,
    "cloudwatch: a metric and month": 0.30,
    "x-ray: a million traces": 5.00,
    "events: a million custom or opt-in events": 1.00,
    "kms: a key and month": 1.00,
    "kms: a rotation and month": 1.00,  # for each of a key's first two rotations: https://aws.amazon.com/kms/pricing
    "kms: ten thousand requests": 0.03,
    "secretsmanager: a secret and month": 0.40,
    "secretsmanager: ten thousand requests": 0.05,
    "ec2: a GB to the internet": 0.09,  # the first 10 TB of a month
    "vpc: a NAT gateway and hour": 0.045,
    "vpc: a GB through a NAT gateway": 0.045,
    "vpc: a public address and hour": 0.005,
    "vpc: an interface endpoint in a zone and hour": 0.01,  # https://aws.amazon.com/privatelink/pricing
    "vpc: a GB through an interface endpoint": 0.01,
}

"""The tables of DynamoDB and their streams, files on S3, keys and secrets."""

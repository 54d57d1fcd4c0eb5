"""Parses HTTP requests to AWS APIs, and formats error responses for the AWS SDKs."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, unquote
from xml.sax.saxutils import escape

from local.functions.quick_json import decode

SIGNERS_KNOWN = 256
"""The maximum number of cached signatures. A caller that uses frames sends the same signature with every call."""
_SIGNED = re.compile(r"Credential=(\w+)/\d{8}/([^/]+)/([^/]+)/aws4_request")
_TARGETS = {
    "DynamoDB": "dynamodb",
    "DynamoDBStreams": "dynamodbstreams",
    "AmazonSQS": "sqs",
    "AWSStepFunctions": "stepfunctions",
    "Firehose": "firehose",
    "TrentService": "kms",
}
_INVOKE = re.compile(r"/2015-03-31/functions/([^/]+)/invocations")
_KEYS = re.compile(r"<Key>([^<]*)</Key>")


@dataclass(frozen=True)
class Call:
    """A call, with boto3's names of service and operation, and the parameters that a permission check needs."""

    service: str
    operation: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Refusal:
    """An error response. An AWS SDK that receives it raises an error."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


@lru_cache(SIGNERS_KNOWN)
def signer_of(authorization: str) -> tuple[str, str]:
    """Return the access key and the service that a signature names; two empty texts without a signature.

    *authorization* is the header Authorization, or the query of a presigned URL.

    >>> signer_of("AWS4-HMAC-SHA256 Credential=KEY/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host")
    ('KEY', 'sqs')
    >>> signer_of("X-Amz-Credential=states.amazonaws.com/20260101/us-east-1/s3/aws4_request")  # A role's, not a key.
    ('', '')
    """
    found = _SIGNED.search(authorization)
    return (found[1], found[3]) if found else ("", "")


def call_of(service: str, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Call:
    """Return the call in an HTTP request. *path* is percent-encoded; for S3 it begins with the bucket.

    >>> call_of("sqs", "POST", "/", "", {"x-amz-target": "AmazonSQS.SendMessage"}, b'{"QueueUrl": "q"}')
    Call(service='sqs', operation='SendMessage', parameters={'QueueUrl': 'q'})
    >>> call_of("s3", "GET", "/b/a%20b", "", {}, b"")
    Call(service='s3', operation='GetObject', parameters={'Bucket': 'b', 'Key': 'a b'})
    """
    target = headers.get("x-amz-target", "")
    if target:
        prefix, _, operation = target.partition(".")
        return Call(_TARGETS.get(prefix.partition("_")[0], service), operation, decode(body or b"{}"))
    if service == "lambda":
        found = _INVOKE.search(path)
        return Call(service, "Invoke", {"FunctionName": unquote(found[1])}) if found else Call(service, method)
    if service == "s3":
        return _of_s3(method, path, dict(parse_qsl(query, keep_blank_values=True)), headers, body)
    return Call(service, method)


def refusal(service: str, code: str, message: str, status: int = 400) -> Refusal:
    """Return the error response of *service* with the error *code*, in the format of this service.

    >>> refusal("dynamodb", "AccessDeniedException", "no").status
    400
    """
    if service == "s3":
        text = f"<?xml version='1.0'?><Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
        return Refusal(status, (("content-type", "application/xml"),), text.encode())
    headers = [("content-type", "application/x-amz-json-1.0"), ("x-amzn-errortype", code)]
    if service == "sqs":
        headers.append(("x-amzn-query-error", f"{code};Sender"))
    return Refusal(status, tuple(headers), json.dumps({"__type": code, "message": message}).encode())


def access_denied(service: str, principal: str, action: str, resource: str) -> Refusal:
    """Return AWS's response to a missing permission."""
    message = (
        f"User: {principal} is not authorized to perform: {action} on resource: {resource} "
        f"because no identity-based policy allows the {action} action"
    )
    code = "AccessDenied" if service in ("s3", "sqs") else "AccessDeniedException"
    return refusal(service, code, message, 403 if service in ("s3", "lambda", "sqs") else 400)


def unknown_key(service: str) -> Refusal:
    """Return AWS's response to an unknown key or a missing signature.

    >>> unknown_key("sqs").status, b"<Code>InvalidAccessKeyId<" in unknown_key("s3").body
    (403, True)
    """
    code = {"s3": "InvalidAccessKeyId", "sqs": "InvalidClientTokenId"}.get(service, "UnrecognizedClientException")
    return refusal(service, code, "The local stack did not issue this access key; see its stack.json", 403)


def _of_s3(method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes) -> Call:
    bucket, _, key = unquote(path.lstrip("/")).partition("/")
    if not key:
        operation = {"HEAD": "HeadBucket", "GET": "ListObjectsV2"}.get(method, f"{method.title()}Bucket")
        if method == "GET" and "location" in query:
            operation = "GetBucketLocation"
        elif method == "GET" and "uploads" in query:
            operation = "ListMultipartUploads"
        elif method == "POST" and "delete" in query:
            keys = [{"Key": key} for key in _KEYS.findall(body.decode())]
            return Call("s3", "DeleteObjects", {"Bucket": bucket, "Delete": {"Objects": keys}})
        return Call("s3", operation, {"Bucket": bucket})
    place = {"Bucket": bucket, "Key": key}
    if method == "PUT" and "x-amz-copy-source" in headers:
        return Call("s3", "CopyObject", {**place, "CopySource": unquote(headers["x-amz-copy-source"])})
    upload = {"PUT": "UploadPart", "POST": "CompleteMultipartUpload", "DELETE": "AbortMultipartUpload"}
    if "uploadId" in query:
        return Call("s3", upload.get(method, "ListParts"), place)
    if "uploads" in query:
        return Call("s3", "CreateMultipartUpload", place)
    plain = {"GET": "GetObject", "HEAD": "HeadObject", "PUT": "PutObject", "DELETE": "DeleteObject"}
    return Call("s3", plain.get(method, f"{method.title()}Object"), place)

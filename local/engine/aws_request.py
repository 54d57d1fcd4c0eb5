"""Requests to AWS APIs as the engine's parts pass them on, and error responses for the AWS SDKs."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote
from xml.sax.saxutils import escape

from local.functions.plain_server import Response
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


class Request(NamedTuple):
    """An HTTP request. *path* is percent-encoded; for S3 it begins with the bucket. Header names are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes
    client: str = "127.0.0.1"

    @property
    def operation(self) -> tuple[str, str]:
        """The prefix of the service and the operation in `x-amz-target`; two empty texts without this header."""
        prefix, _, operation = self.headers.get("x-amz-target", "").partition(".")
        return prefix, operation


Handler = Callable[[Request], Awaitable[Response]]


@lru_cache(SIGNERS_KNOWN)
def signer_of(authorization: str) -> tuple[str, str]:
    """Return the access key and the service that a signature names.

    Return two empty texts without a signature, or if its credential is not an access key.

    *authorization* is the header Authorization, or the query of a presigned URL.

    >>> signer_of("AWS4-HMAC-SHA256 Credential=KEY/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host")
    ('KEY', 'sqs')
    >>> signer_of("X-Amz-Credential=states.amazonaws.com/20260101/us-east-1/s3/aws4_request")  # A role's, not a key.
    ('', '')
    """
    found = _SIGNED.search(authorization)
    return (found[1], found[3]) if found else ("", "")


def call_of(service: str, request: Request) -> Call:
    """Return the call in a request. *service* is the name in its signature.

    >>> call_of("sqs", Request("POST", "/", "", {"x-amz-target": "AmazonSQS.SendMessage"}, b'{"QueueUrl": "q"}'))
    Call(service='sqs', operation='SendMessage', parameters={'QueueUrl': 'q'})
    >>> call_of("s3", Request("GET", "/b/a%20b", "", {}, b""))
    Call(service='s3', operation='GetObject', parameters={'Bucket': 'b', 'Key': 'a b'})
    """
    prefix, operation = request.operation
    if operation:
        return Call(_TARGETS.get(prefix.partition("_")[0], service), operation, decode(request.body or b"{}"))
    if service == "lambda" and (found := _INVOKE.search(request.path)):
        return Call(service, "Invoke", {"FunctionName": unquote(found[1])})
    return _of_s3(request) if service == "s3" else Call(service, request.method)


def refusal(service: str, code: str, message: str, status: int = 400) -> Response:
    """Return the error response of *service* with the error *code*, in the format of this service.

    >>> refusal("dynamodb", "AccessDeniedException", "no").status
    400
    """
    if service == "s3":
        text = f"<?xml version='1.0'?><Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
        return Response(status, (("content-type", "application/xml"),), text.encode())
    headers = [("content-type", "application/x-amz-json-1.0"), ("x-amzn-errortype", code)]
    if service == "sqs":
        headers.append(("x-amzn-query-error", f"{code};Sender"))
    return Response(status, tuple(headers), json.dumps({"__type": code, "message": message}).encode())


def access_denied(service: str, principal: str, action: str, resource: str) -> Response:
    """Return AWS's error response to a call without permission. *principal* is the ARN of the caller's role."""
    message = (
        f"User: {principal} is not authorized to perform: {action} on resource: {resource} "
        f"because no identity-based policy allows the {action} action"
    )
    code = "AccessDenied" if service in ("s3", "sqs") else "AccessDeniedException"
    return refusal(service, code, message, 403 if service in ("s3", "lambda", "sqs") else 400)


def unknown_key(service: str) -> Response:
    """Return AWS's response to an unknown key or a missing signature.

    >>> unknown_key("sqs").status, b"<Code>InvalidAccessKeyId<" in unknown_key("s3").body
    (403, True)
    """
    code = {"s3": "InvalidAccessKeyId", "sqs": "InvalidClientTokenId"}.get(service, "UnrecognizedClientException")
    return refusal(service, code, "The local stack did not issue this access key; see its stack.json", 403)


def _of_s3(request: Request) -> Call:
    method, query = request.method, dict(parse_qsl(request.query, keep_blank_values=True))
    bucket, _, key = unquote(request.path.lstrip("/")).partition("/")
    if not key:
        operation = {"HEAD": "HeadBucket", "GET": "ListObjectsV2"}.get(method, f"{method.title()}Bucket")
        if method == "GET" and "location" in query:
            operation = "GetBucketLocation"
        elif method == "GET" and "uploads" in query:
            operation = "ListMultipartUploads"
        elif method == "POST" and "delete" in query:
            keys = [{"Key": key} for key in _KEYS.findall(request.body.decode())]
            return Call("s3", "DeleteObjects", {"Bucket": bucket, "Delete": {"Objects": keys}})
        return Call("s3", operation, {"Bucket": bucket})
    place = {"Bucket": bucket, "Key": key}
    if method == "PUT" and (source := request.headers.get("x-amz-copy-source")):
        return Call("s3", "CopyObject", {**place, "CopySource": unquote(source)})
    upload = {"PUT": "UploadPart", "POST": "CompleteMultipartUpload", "DELETE": "AbortMultipartUpload"}
    if "uploadId" in query:
        return Call("s3", upload.get(method, "ListParts"), place)
    if "uploads" in query:
        return Call("s3", "CreateMultipartUpload", place)
    plain = {"GET": "GetObject", "HEAD": "HeadObject", "PUT": "PutObject", "DELETE": "DeleteObject"}
    return Call("s3", plain.get(method, f"{method.title()}Object"), place)

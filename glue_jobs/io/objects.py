"""Single objects of an archive with conditional writes: on S3, or in a folder.

Spark's file systems have no conditional write. S3 has two: ``If-None-Match: *`` creates an object, ``If-Match``
replaces the version that was read. So one of two concurrent writes fails.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

Done = TypeVar("Done")
_DRAFT = re.compile(r"\..+\.([0-9]{1,9})")
LOCK = ".lock"
CONFLICT_CODES = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey"})
"""S3's codes for a failed condition: 412, 409 for concurrent writes, 404 for If-Match without an object."""
DELETED_AT_ONCE = 1000


class UnreachableArchiveError(RuntimeError):
    """The bucket or folder of an archive is unusable. The error's text says what to do."""


class LostRaceError(RuntimeError):
    """Another writer changed the object since it was read."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} was written by another run meanwhile: run the job again")


class DamagedObjectError(RuntimeError):
    """An object of the archive has no readable content."""

    def __init__(self, key: str, fault: Exception) -> None:
        super().__init__(f"{key} is damaged ({fault}): restore or delete it, and run the job again")


@contextmanager
def naming(key: str) -> Iterator[None]:
    """Run a block that decodes the object *key*. Replace its errors by DamagedObjectError, which names the key."""
    try:
        yield
    except (ValueError, TypeError, LookupError, EOFError, OSError, zlib.error) as fault:
        raise DamagedObjectError(key, fault) from fault


def until_won(
    work: Callable[[], Done], attempts: int, lost: Callable[[LostRaceError], object] = lambda fault: None
) -> Done:
    """Return the result of *work*. After a LostRaceError, call *work* again, but at most *attempts* times in all.

    *lost* is called with each LostRaceError except the last one, which is raised.

    >>> until_won(lambda: 7, 3)
    7
    """
    for _ in range(attempts - 1):
        try:
            return work()
        except LostRaceError as fault:
            lost(fault)
    return work()


@dataclass(frozen=True, slots=True)
class Stored:
    """The content of an object when it was read, its tag (ETag) for conditional writes, and its key."""

    content: bytes
    tag: str
    key: str = ""


def json_of(stored: Stored | None) -> dict[str, Any]:
    """Return the JSON object in *stored*, or an empty one if *stored* is None. Raises DamagedObjectError.

    >>> json_of(Stored(b'{"records": 7}', "tag")), json_of(None)
    ({'records': 7}, {})
    """
    if stored is None:
        return {}
    with naming(stored.key):
        return dict(json.loads(stored.content))


class Objects(Protocol):
    """The objects of one archive, by key."""

    def read(self, key: str) -> Stored | None:
        """Return an object, or None if it does not exist."""

    def write(self, key: str, content: bytes, seen: Stored | None) -> None:
        """Write an object if it is unchanged since it was read as *seen*. Otherwise raise LostRaceError.

        If *seen* is None, write the object only if it does not exist.
        """

    def replace(self, key: str, content: bytes) -> None:
        """Write an object unconditionally."""

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return the keys that begin with *prefix*, in order, each with its size in bytes."""

    def remove(self, keys: Iterable[str]) -> None:
        """Delete objects; a versioned bucket keeps their content as former versions."""

    def purge(self, prefix: str) -> int:
        """Delete every former version below *prefix* permanently, and return their number."""


@dataclass(frozen=True, slots=True)
class FolderObjects:
    """A folder as archive. A conditional write holds a lock. The lock is released even if its process dies."""

    root: Path

    def read(self, key: str) -> Stored | None:
        """Return the file's bytes, or None if the file does not exist."""
        try:
            content = (self.root / key).read_bytes()
        except FileNotFoundError:
            return None
        return Stored(content, sha256(content).hexdigest(), key)

    def write(self, key: str, content: bytes, seen: Stored | None) -> None:
        """Write the file under the lock if it is unchanged since *seen*. Raises LostRaceError."""
        with self._lock():
            present = self.read(key)
            if (present and present.tag) != (seen and seen.tag):
                raise LostRaceError(key)
            self.replace(key, content)

    def replace(self, key: str, content: bytes) -> None:
        """Replace the file atomically."""
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_bytes(content)
        draft.replace(path)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)  # Hadoop's checksum of the old content.

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return the size in bytes of each file whose key begins with *prefix*, sorted by key.

        Files whose names begin with a dot are left out, such as Hadoop's checksums.
        """
        folder = self.root / prefix.rpartition("/")[0]
        files = (path for path in folder.rglob("[!.]*") if path.is_file())
        found = {path.relative_to(self.root).as_posix(): path.stat().st_size for path in files}
        return {key: found[key] for key in sorted(found) if key.startswith(prefix)}

    def remove(self, keys: Iterable[str]) -> None:
        """Delete the files, and folders that become empty."""
        for key in keys:
            path = self.root / key
            path.unlink(missing_ok=True)
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
            for folder in path.parents:
                if folder == self.root or not folder.is_dir() or any(folder.iterdir()):
                    break
                folder.rmdir()

    def purge(self, prefix: str) -> int:
        """Delete temporary files of ended processes below the folder *prefix*; return their number.

        There are no former versions to delete, because a folder keeps none.
        """
        number = 0
        for path in (self.root / prefix).rglob(".*") if prefix.endswith("/") else ():
            if (found := _DRAFT.fullmatch(path.name)) and not _is_running(int(found[1])):
                path.unlink(missing_ok=True)
                number += 1
        return number

    @contextmanager
    def _lock(self) -> Iterator[None]:
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / LOCK).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@dataclass(frozen=True, slots=True)
class BucketObjects:
    """A bucket as archive; *client* is a boto3 client of S3."""

    client: Any
    bucket: str

    def read(self, key: str) -> Stored | None:
        """Get the object with its ETag, or None if the object does not exist."""
        try:
            found = self.client.get_object(Bucket=self.bucket, Key=key)
        except self.client.exceptions.NoSuchKey:
            return None
        return Stored(found["Body"].read(), found["ETag"], key)

    def write(self, key: str, content: bytes, seen: Stored | None) -> None:
        """Put the object if it is unchanged since *seen*. Raises LostRaceError."""
        condition = {"IfNoneMatch": "*"} if seen is None else {"IfMatch": seen.tag}
        try:
            self.client.put_object(Bucket=self.bucket, Key=key, Body=content, **condition)
        except self.client.exceptions.ClientError as fault:
            if fault.response["Error"]["Code"] in CONFLICT_CODES:
                raise LostRaceError(key) from fault
            raise

    def replace(self, key: str, content: bytes) -> None:
        """Put the object."""
        self.client.put_object(Bucket=self.bucket, Key=key, Body=content)

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return the sizes from all pages of S3's list. Markers of folders (by S3A and the console) are left out."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        found = (each for page in pages for each in page.get("Contents", ()))
        return {each["Key"]: each["Size"] for each in found if not each["Key"].endswith("/")}

    def remove(self, keys: Iterable[str]) -> None:
        """Delete objects, a thousand per request."""
        self._delete([{"Key": key} for key in keys])

    def purge(self, prefix: str) -> int:
        """Delete all but the latest versions, and every delete marker; return their number."""
        pages = self.client.get_paginator("list_object_versions").paginate(Bucket=self.bucket, Prefix=prefix)
        versions, markers = list[Any](), list[Any]()
        for page in pages:
            versions += [each for each in page.get("Versions", ()) if not each["IsLatest"]]
            markers += page.get("DeleteMarkers", [])
        # Without its marker, a deleted object would exist again.
        former = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in (*versions, *markers)]
        self._delete(former)
        return len(former)

    def _delete(self, objects: list[dict[str, str]]) -> None:
        for place in range(0, len(objects), DELETED_AT_ONCE):
            some = {"Objects": objects[place : place + DELETED_AT_ONCE], "Quiet": True}
            answer = self.client.delete_objects(Bucket=self.bucket, Delete=some)
            if answer.get("Errors"):
                raise RuntimeError(f"S3 did not delete {answer['Errors'][0]}")


S3A_NAMES = ("endpoint", "endpoint.region", "access.key", "secret.key", "session.token")
"""Settings of Hadoop's S3A for an S3 endpoint and its credentials. Jobs on AWS need none of these settings."""
_AMAZONS = re.compile(r"(^|[./])amazonaws\.(com(\.cn)?|eu)(:\d+)?/?$")


def own_endpoint(endpoint: str | None) -> str | None:
    """Return the URL of an S3 that is not Amazon's. For Amazon's, return None, so the SDK finds the region's endpoint.

    Spark (SparkHadoopUtil, since 3.2) sets ``s3.amazonaws.com`` if neither endpoint nor region is configured.

    >>> own_endpoint("s3.amazonaws.com"), own_endpoint("https://s3.eusc-de-east-1.amazonaws.eu"), own_endpoint(None)
    (None, None, None)
    >>> own_endpoint("http://127.0.0.1:5000"), own_endpoint("minio:9000")
    ('http://127.0.0.1:5000', 'https://minio:9000')
    """
    if not endpoint or _AMAZONS.search(endpoint):
        return None
    return endpoint if "://" in endpoint else f"https://{endpoint}"


def objects_at(root: str, s3a: Mapping[str, str | None]) -> Objects:
    """Return the objects below *root*; *s3a* maps the names in `S3A_NAMES` to Hadoop's settings."""
    if not is_bucket(root):
        return FolderObjects(Path(root.removeprefix(_FILE)))
    import boto3
    from botocore.config import Config

    endpoint = own_endpoint(s3a.get("endpoint"))
    client = boto3.client(
        "s3",
        config=None if endpoint is None else Config(s3={"addressing_style": "path"}),
        endpoint_url=endpoint,
        region_name=s3a.get("endpoint.region"),
        aws_access_key_id=s3a.get("access.key"),
        aws_secret_access_key=s3a.get("secret.key"),
        aws_session_token=s3a.get("session.token"),
    )
    return BucketObjects(client, urlsplit(root).netloc)


FOUND_BY_JAVA = frozenset(
    {"env", "shared-credentials-file", "assume-role-with-web-identity", "container-role", "iam-role"}
)
"""Sources of boto3's credentials that Java's default chain also finds and renews.

See docs.aws.amazon.com/sdk-for-java/v1/developer-guide/credentials.html.
"""


def bucket_settings(uri: str) -> dict[str, str]:
    """Return the settings with which S3A reaches the bucket of *uri* like boto3 does. Their names are in `S3A_NAMES`.

    They are region, endpoint, and any credentials that Java's chain does not find, such as those of an SSO login. Such
    credentials are not renewed while the job runs. Raises UnreachableArchiveError.
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    bucket = urlsplit(uri).netloc
    try:
        session = boto3.Session()
        credentials = session.get_credentials()
        if credentials is None:
            raise UnreachableArchiveError(
                "No AWS credentials found: run `aws configure`, or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and"
                " AWS_SECRET_ACCESS_KEY. For a local S3, give --s3-endpoint."
            )
        region = session.client("s3").head_bucket(Bucket=bucket)["BucketRegion"]
        # S3A accepts a region only with the endpoint of that region.
        endpoint = urlsplit(session.client("s3", region_name=region).meta.endpoint_url).netloc
        where = {"endpoint": endpoint, "endpoint.region": region}
        if credentials.method in FOUND_BY_JAVA:
            return where
        keys = credentials.get_frozen_credentials()
    except ClientError as fault:
        raise UnreachableArchiveError(_refusal(bucket, fault.response["ResponseMetadata"]["HTTPStatusCode"])) from None
    except BotoCoreError as fault:
        raise UnreachableArchiveError(f"The bucket {bucket} cannot be reached: {fault}") from None
    found = {"access.key": keys.access_key, "secret.key": keys.secret_key, "session.token": keys.token}
    return where | {name: value for name, value in found.items() if value}


_FILE = "file://"


def is_bucket(uri: str) -> bool:
    """Return whether an archive is a bucket, not a folder."""
    return uri.startswith(("s3://", "s3a://"))


def root_of(uri: str) -> str:
    """Return the URI of an archive's root, without a slash at its end.

    The path of a folder is absolute, and not escaped, because Hadoop does not unescape paths.

    >>> root_of("s3://shop/"), root_of("/my archive"), root_of("file:///my%20archive")
    ('s3://shop', 'file:///my archive', 'file:///my archive')
    """
    return uri.rstrip("/") if is_bucket(uri) else f"{_FILE}{_folder(uri)}"


def _folder(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path) if "://" in uri else uri).resolve()


def check_folder(uri: str) -> None:
    """Raise UnreachableArchiveError if *uri* is not a folder. A mistyped name would look like an empty archive."""
    path = _folder(uri)
    if not path.is_dir():
        raise UnreachableArchiveError(f"{path} is not a folder: give s3://BUCKET or an existing folder.")


def _refusal(bucket: str, status: int) -> str:
    """Return why S3 refused to describe a bucket.

    >>> _refusal("shop", 404)
    'There is no bucket shop. `aws s3 ls` lists those of your account.'
    """
    if status == 404:
        return f"There is no bucket {bucket}. `aws s3 ls` lists those of your account."
    if status == 403:
        return (
            f"Your AWS identity may not use the bucket {bucket}. It needs s3:ListBucket, s3:GetObject and s3:PutObject"
            " there; `aws sts get-caller-identity` says who you are."
        )
    return f"S3 answered {status} to a question for the bucket {bucket}."

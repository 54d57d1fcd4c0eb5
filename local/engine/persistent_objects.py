"""Ends the engine if an S3 object cannot be written. Lets Firehose answer only after its objects are written.

The unchanged engine logs a failed write and answers as if it had succeeded. Its Firehose answers before it writes. It
keeps the bodies of versions in memory, although they are in files.
"""

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from local.engine.last_error import end_process, why_not_written

OK = 200
HEADERS = {"content-type": "application/octet-stream", "host": "s3.localhost"}


def install(objects: ModuleType) -> None:
    """Wrap the file operations of *objects*, the engine's module for S3. A failed write then ends the process.

    The bodies of versions are no longer kept in memory.
    """
    objects._version_entry_from_record = without_body(objects._version_entry_from_record)  # type: ignore[attr-defined]
    objects._atomic_write = end_process_on_error(objects._atomic_write)  # type: ignore[attr-defined]
    objects.os = SimpleNamespace(**{**vars(os), "makedirs": end_process_on_error(os.makedirs)})  # type: ignore[attr-defined]


def without_body(entry_of: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap *entry_of*, which returns the entry of an object's version. Its entries then have no body.

    Readers of the version read the file instead.
    """
    return lambda record, version_id, _: entry_of(record, version_id, None)


def end_process_on_error(write: Callable[..., None]) -> Callable[..., None]:
    """Wrap *write*, which writes to the path in its first argument. If the write fails, the process ends."""

    def write_or_end(path: str, *content: Any, **how: Any) -> None:
        try:
            write(path, *content, **how)
        except OSError as fault:
            end_process(why_not_written(fault, Path(path).parent) or f"{path} cannot be written: {fault}")

    return write_or_end


def put_object(objects: ModuleType) -> Callable[[str, str, bytes], None]:
    """Return a function with which Firehose puts an object. The function returns after the object is written."""

    def put(bucket: str, key: str, body: bytes) -> None:
        headers = {**HEADERS, "content-length": str(len(body))}
        putting = objects.handle_request("PUT", f"/{bucket}/{key}", headers, body, {}, internal=True)
        try:
            putting.send(None)
        except StopIteration as ended:
            status, _, answer = ended.value
            if status != OK:
                print(f"Firehose could not deliver: {answer!r}", flush=True)
        else:
            raise RuntimeError("putting an object in the engine's S3 must not wait for other tasks")

    return put

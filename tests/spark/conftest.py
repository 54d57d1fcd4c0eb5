"""One Spark session for all, and a local S3 that it reads as Glue reads S3."""

import gzip
import json
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"

import boto3
import pytest
from moto.server import ThreadedMotoServer
from pyspark.sql import SparkSession

from glue_jobs.io.session import WORKERS, java_home, s3a_settings
from local.stack.job_session import QUICK_START


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="session")
def spark(s3: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["JAVA_HOME"] = str(java_home(os.environ))
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.driver.extraJavaOptions": QUICK_START,
        **WORKERS,
        **s3a_settings(s3, os.environ),
    }
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@dataclass
class Bucket:
    """An archive in a folder, filled as Firehose fills its bucket."""

    uri: str
    serial: int = field(default=0)

    def put(self, kind: str, day: str, records: Iterable[Mapping[str, Any] | str], hour: str = "12") -> str:
        """Put records, or lines as they are, as one object that arrived on *day*; return its key.

        Each line came in a request of its own, and is a member of the gzip file.
        """
        lines = [each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in records]
        return self.put_bytes(kind, day, b"".join(gzip.compress(f"{line}\n".encode()) for line in lines), hour)

    def put_bytes(self, kind: str, day: str, content: bytes, hour: str = "12") -> str:
        self.serial += 1
        key = f"raw/{kind}/dt={day}/hour={hour}/{self.serial:04d}.gz"
        self.write(key, content)
        return key

    def write(self, key: str, content: bytes) -> None:
        path = Path(self.uri) / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def keys(self, prefix: str) -> list[str]:
        found = (path.relative_to(self.uri).as_posix() for path in Path(self.uri).rglob("[!.]*") if path.is_file())
        return sorted(key for key in found if key.startswith(prefix))

    def text(self, key: str) -> str:
        return (Path(self.uri) / key).read_text()


@dataclass
class S3Bucket(Bucket):
    """The same in a bucket of the local S3."""

    client: Any = None

    @property
    def name(self) -> str:
        return self.uri.removeprefix("s3://")

    def write(self, key: str, content: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=content)

    def keys(self, prefix: str) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return [each["Key"] for page in pages for each in page.get("Contents", ())]

    def text(self, key: str) -> str:
        return str(self.client.get_object(Bucket=self.name, Key=key)["Body"].read().decode())


@pytest.fixture(scope="session")
def s3_bucket(s3: str) -> S3Bucket:
    client = boto3.client("s3", endpoint_url=s3)
    client.create_bucket(Bucket="archive")
    return S3Bucket("s3://archive", client=client)


@pytest.fixture(scope="session")
def new_bucket(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Bucket]:
    return lambda: Bucket(str(tmp_path_factory.mktemp("archive")))


@pytest.fixture
def bucket(new_bucket: Callable[[], Bucket]) -> Bucket:
    return new_bucket()


Told = Callable[[], dict[str, Any]]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """Returns the last line that a job printed, which is its summary."""

    def last() -> dict[str, Any]:
        summary: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
        return summary

    return last

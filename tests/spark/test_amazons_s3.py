"""Jobs on Amazon's S3, without any endpoint: S3A, boto3 and Spark find it by themselves.

moto's proxy answers behind AWS's host names. It is told to both SDKs as a proxy, which is no part of finding an
endpoint, a region, credentials or the form of an address. S3A speaks to it without TLS, since its Java knows no
certificate of moto's; boto3 speaks TLS.
"""

import logging
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Final

import boto3
import moto.moto_proxy
import pyspark
import pytest
from moto.moto_proxy.proxy3 import ProxyRequestHandler

from glue_jobs import package
from glue_jobs.io.objects import BucketObjects, objects_at
from glue_jobs.io.session import java_home, s3a_settings
from local.stack.job_session import QUICK_START
from tests.spark.conftest import S3Bucket
from tests.spark.story import DAY
from tests.spark.test_jobs import WINDOW, story

REGION: Final = "eu-west-3"
BUCKET = "archive-of-a-shop"
AUTHORITY = Path(moto.moto_proxy.__file__).parent / "ca.crt"
ASKED = re.compile(r"(\w+)\S* (https?)://([^/ ]+)(/\S*)")


@dataclass
class Amazon(logging.Handler):
    """moto's S3 behind AWS's host names; *hosts* were asked, with their schemes."""

    port: int = 0
    hosts: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    __hash__ = object.__hash__

    def emit(self, record: logging.LogRecord) -> None:
        if found := ASKED.search(record.getMessage()):
            self.hosts.add((found[2], found[3]))

    @property
    def proxy(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture(scope="module")
def amazon() -> Iterator[Amazon]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), ProxyRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    made = Amazon(port=server.server_port)
    told = logging.getLogger("MOTO_PROXY")
    told.addHandler(made)
    told.propagate = False
    yield made
    told.removeHandler(made)
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def filled(s3: str) -> S3Bucket:
    """The archive in a bucket of another region than the SDKs take for the usual one."""
    client = boto3.client("s3", endpoint_url=s3, region_name=REGION)
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    bucket = S3Bucket(f"s3://{BUCKET}", client=client)
    for kind, records in story().items():
        bucket.put(kind, DAY, records)
    return bucket


def environment(amazon: Amazon, home: Path, **more: str) -> dict[str, str]:
    """The environment of a user: credentials, and how this test leads requests to moto. No endpoint, no region."""
    (home / "spark-defaults.conf").write_text(
        "spark.hadoop.fs.s3a.proxy.host 127.0.0.1\n"
        f"spark.hadoop.fs.s3a.proxy.port {amazon.port}\n"
        "spark.hadoop.fs.s3a.connection.ssl.enabled false\n"
    )
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return inherited | {
        "AWS_ACCESS_KEY_ID": "AKIAEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_CA_BUNDLE": str(AUTHORITY),
        "AWS_CONFIG_FILE": str(home / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(home / "none"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "HTTPS_PROXY": amazon.proxy,
        "NO_PROXY": "127.0.0.1",
        "SPARK_CONF_DIR": str(home),
        **more,
    }


def run(command: Sequence[str], environment: Mapping[str, str]) -> None:
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr[-6000:]
    assert len([line for line in ran.stdout.splitlines() if line.startswith("{")]) == 1, "a job prints one summary"


JOBS: dict[str, list[str]] = {
    "compact": [*WINDOW],
    "delivery_report": [*WINDOW],
    "audit": [*WINDOW, "--as-of", "2026-12-20T00:00:00Z"],
    "backtest": [*WINDOW, "--topic", "fruit", "--filter", '{"kind": "tags", "tags": ["pear"]}'],
    "replay": [*WINDOW, "--topic", "fruit", "--subscription", "s0"],
    "erase": [*WINDOW, "--message", f"{1:020}"],
    "retain": ["--kept-days", "1095", "--bodies-days", "30", "--properties-days", "0"],
}


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_every_job_on_a_laptop_finds_amazons_s3_by_itself(amazon: Amazon, filled: S3Bucket, tmp_path: Path) -> None:
    amazon.hosts.clear()

    for job, words in JOBS.items():
        command = [sys.executable, "-m", "glue_jobs.chain", job, "--archive", f"s3://{BUCKET}", *words]
        run(command, environment(amazon, tmp_path))

    assert amazon.hosts >= {
        ("https", f"{BUCKET}.s3.amazonaws.com"),  # boto3 asks for the region of the bucket, and knows none yet.
        ("https", f"{BUCKET}.s3.{REGION}.amazonaws.com"),
        ("http", f"{BUCKET}.s3.{REGION}.amazonaws.com"),  # S3A, in the region that was found.
    }
    assert {host.rpartition(".s3")[0] for _, host in amazon.hosts} == {BUCKET}


GLUES_OWN = ["--JOB_NAME", "compact", "--JOB_ID", "j_1", "--TempDir", "s3://temporary/", "--enable-metrics", "true"]


def submitted(job: str, folder: Path) -> list[str]:
    """The command of Glue in principle: a Spark that is there, a script, the zip, its own arguments besides ours."""
    package.main([str(folder)])
    jars = s3a_settings(None, {})["spark.jars"].replace(",", os.pathsep)  # --jars copies 200 MB.
    return [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--master", "local[2]", "--driver-class-path", jars, "--py-files", str(folder / package.ARCHIVE)),
        *("--driver-java-options", QUICK_START),
        *(
            "--conf",
            "spark.hadoop.fs.s3.impl=org.apache.hadoop.fs.s3a.S3AFileSystem",
            "--conf",
            "spark.ui.enabled=false",
        ),
        str(folder / f"{job}.py"),
        *("--archive", f"s3://{BUCKET}", *JOBS[job], *GLUES_OWN),
    ]


def on_glue(amazon: Amazon, home: Path) -> dict[str, str]:
    """Glue tells its job the region, and Spark nothing of S3: Spark's own defaults hold."""
    return environment(
        amazon, home, AWS_DEFAULT_REGION=REGION, JAVA_HOME=str(java_home(os.environ)), PYSPARK_PYTHON=sys.executable
    )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("jobs", [["compact"], pytest.param(JOBS, marks=pytest.mark.nightly)], ids=["one", "all"])
def test_jobs_that_are_submitted_read_and_write_amazons_s3(
    amazon: Amazon, filled: S3Bucket, tmp_path: Path, jobs: Iterable[str]
) -> None:
    amazon.hosts.clear()

    for job in jobs:
        run(submitted(job, tmp_path / "jobs"), on_glue(amazon, tmp_path))

    assert ("https", f"{BUCKET}.s3.{REGION}.amazonaws.com") in amazon.hosts
    assert any(scheme == "http" for scheme, _ in amazon.hosts)
    assert all(host.startswith(f"{BUCKET}.s3.") and host.endswith(".amazonaws.com") for _, host in amazon.hosts)


def test_what_spark_sets_by_itself_is_no_endpoint_for_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    objects = objects_at(f"s3://{BUCKET}", {"endpoint": "s3.amazonaws.com", "endpoint.region": None})
    assert isinstance(objects, BucketObjects)
    assert objects.client.meta.endpoint_url == f"https://s3.{REGION}.amazonaws.com"


@pytest.mark.parametrize(
    ("bucket", "more", "told"),
    [
        ("no-such-bucket-of-a-shop", {}, "There is no bucket no-such-bucket-of-a-shop."),
        (BUCKET, {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "No AWS credentials found:"),
        (BUCKET, {"AWS_PROFILE": "nobody"}, "The config profile (nobody) could not be found"),
        (BUCKET, {"HTTPS_PROXY": "http://127.0.0.1:9"}, f"The bucket {BUCKET} cannot be reached:"),
    ],
)
def test_a_job_that_cannot_reach_its_archive_says_why_in_a_sentence(
    amazon: Amazon, filled: S3Bucket, tmp_path: Path, bucket: str, more: dict[str, str], told: str
) -> None:
    command = [sys.executable, "-m", "glue_jobs.compact", "--archive", f"s3://{bucket}", *WINDOW]
    environ = environment(amazon, tmp_path, **more) | {"AWS_MAX_ATTEMPTS": "1"}
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 2
    assert told in ran.stderr
    assert "Traceback" not in ran.stderr

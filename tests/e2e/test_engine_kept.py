"""The engine by itself, killed with SIGKILL: what it answered for is there when it comes back."""

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from local.engine.engine import Engine, EngineError
from local.engine.journal import Journal

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]
ROWS = 100_000
START_RATIO_MAX = 8.0
"""CPU of the engine until it answers, as a multiple of writing its journal in the same run (measured: 5.5)."""
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
LARGE_BYTES = 24 * 1024 * 1024


class Killed:
    """An engine that can be killed and started again on its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.start()

    def start(self) -> None:
        self.engine = Engine(self.folder, "127.0.0.1:9")
        self.engine.start()

    def kill(self) -> None:
        assert self.engine.pid is not None
        os.kill(self.engine.pid, signal.SIGKILL)
        self.engine.stop()

    def come_back(self) -> None:
        self.kill()
        self.start()

    def client(self, service: str) -> Any:
        return self.engine.client(service)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.engine.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.engine.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Killed]:
    started = Killed(tmp_path / "engine")
    yield started
    started.engine.stop()


def make_table(killed: Killed) -> str:
    table = killed.client("dynamodb").create_table(
        TableName="Things", BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )  # fmt: skip
    return str(table["TableDescription"]["TableId"])


def test_secrets_keys_and_objects_are_there(killed: Killed) -> None:
    key = killed.client("kms").create_key()["KeyMetadata"]["KeyId"]
    killed.come_back()
    sealed = killed.client("kms").encrypt(KeyId=key, Plaintext=b"plain")["CiphertextBlob"]
    killed.client("secretsmanager").create_secret(Name="s", SecretString="first")
    killed.come_back()
    killed.client("secretsmanager").put_secret_value(SecretId="s", SecretString="second")
    killed.client("s3").create_bucket(Bucket="bucket")
    killed.come_back()
    killed.client("s3").put_object(Bucket="bucket", Key="a/b", Body=b"object", Metadata={"m": "1"})
    killed.come_back()

    assert killed.client("kms").decrypt(CiphertextBlob=sealed)["Plaintext"] == b"plain"
    assert killed.client("secretsmanager").get_secret_value(SecretId="s")["SecretString"] == "second"
    found = killed.client("s3").get_object(Bucket="bucket", Key="a/b")
    assert (found["Body"].read(), found["Metadata"]) == (b"object", {"m": "1"})


def test_the_memory_of_a_large_request_is_given_back(killed: Killed) -> None:
    objects = killed.client("s3")
    objects.create_bucket(Bucket="bucket")
    before = killed.resident_bytes()
    for _ in range(3):
        objects.put_object(Bucket="bucket", Key="a", Body=b"x" * LARGE_BYTES)
    objects.put_object(Bucket="bucket", Key="a", Body=b"small")  # The connection holds its last request.
    assert killed.resident_bytes() - before < LARGE_BYTES // 2


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda text: text[: len(text) // 2],
    "emptied": lambda text: b"",
    "one bit": lambda text: text[:-9] + bytes([text[-9] ^ 1]) + text[-8:],
    "zeros": lambda text: text[: len(text) // 3] + bytes(len(text) // 3) + text[2 * len(text) // 3 :],
}


def test_a_damaged_file_of_the_services_is_named_and_not_started_from(killed: Killed) -> None:
    killed.client("secretsmanager").create_secret(Name="s", SecretString="first")
    killed.client("kms").create_key()
    make_table(killed)
    killed.engine.stop()
    path = killed.folder / "state" / "services.json"
    whole = path.read_bytes()
    for damage in DAMAGES.values():
        path.write_bytes(damage(whole))
        with pytest.raises(EngineError, match=r"services.json is damaged: .* Put back a copy .*FRESH=1"):
            killed.start()
    path.write_bytes(whole)
    killed.start()  # What refused to start has changed nothing else.
    assert killed.client("secretsmanager").get_secret_value(SecretId="s")["SecretString"] == "first"
    assert killed.client("dynamodb").list_tables()["TableNames"] == ["Things"]


def test_an_object_that_cannot_be_written_is_not_answered_for_and_the_engine_says_why_it_ends(killed: Killed) -> None:
    objects = killed.client("s3")
    objects.create_bucket(Bucket="bucket")
    objects.put_object(Bucket="bucket", Key="before", Body=b"x")
    assert killed.engine.pid is not None
    resource.prlimit(killed.engine.pid, resource.RLIMIT_FSIZE, (1_000, 1_000))
    with pytest.raises((BotoCoreError, ClientError)):
        objects.put_object(Bucket="bucket", Key="after", Body=b"x" * 2_000)
    assert "may not become larger (ulimit -f)" in killed.engine.why_ended
    killed.engine.stop()
    killed.start()
    found = killed.client("s3").list_objects_v2(Bucket="bucket")["Contents"]
    assert [each["Key"] for each in found] == ["before"]


def test_an_engine_with_a_large_journal_starts_in_seconds(killed: Killed) -> None:
    table = make_table(killed)
    killed.kill()
    item = {"body": {"S": "x" * 200}, "map": {"M": {"0": {"S": "waiting"}, "1": {"S": "done"}}}, "n": {"N": "1"}}
    journal = Journal(killed.folder / "journal")
    list(journal.read()[1])
    began_s = time.process_time()
    for number in range(ROWS):
        journal.add("put", table, f"{number}", "__no_sort__", {"pk": {"S": f"{number}"}, **item})
        journal.add("streamed", table, "INSERT", f"{number}", f"{number:030d}", time.time())
        journal.write()
    written_s = time.process_time() - began_s
    killed.start()
    assert killed.cpu_s() < START_RATIO_MAX * written_s
    described = killed.client("dynamodb").describe_table(TableName="Things")["Table"]
    assert described["ItemCount"] == ROWS

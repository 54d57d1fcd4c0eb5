"""A process's clients of AWS services: their retries, timeouts and endpoints."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import BotoCoreError, ClientError
from tagcast_aws import wiring
from tagcast_aws.runtime.aws_clients import ONCE, SOON, USUAL, WAITING, Patience, client_factory

from functions.fan_out import app as fan_out
from functions.retry import app as retry
from functions.sweep import app as sweep
from local.template.translated import read_template

TEMPLATE = read_template(Path(__file__).resolve().parents[2] / "template.yaml")
TIMEOUTS_S = {name: int(function["Timeout"]) for name, function in TEMPLATE.of_type("AWS::Lambda::Function")}
RESERVES_S = {"FanOutFunction": fan_out.RESERVE_S, "RetryFunction": retry.RESERVE_S, "SweepFunction": sweep.RESERVE_S}
"""Of functions that begin nothing any more when so much is left."""
ANSWER_S = 1.0
"""What a function needs besides a call that took its longest."""


def test_all_that_ask_at_once_share_one_client() -> None:
    clients: list[object] = []

    def make_client(service: str, **_: object) -> object:
        assert service == "lambda"
        clients.append(object())
        time.sleep(0.05)
        return clients[-1]

    client = client_factory(make_client)
    with ThreadPoolExecutor(9) as threads:
        found = {id(each) for each in threads.map(client, ["lambda"] * 9)}

    assert len(found) == len(clients) == 1


@pytest.mark.parametrize("patience", [USUAL, SOON, ONCE, WAITING])
@pytest.mark.parametrize("function", TIMEOUTS_S)
def test_no_call_outlasts_the_function_that_makes_it(function: str, patience: Patience) -> None:
    assert patience.longest_s + ANSWER_S <= TIMEOUTS_S[function]


@pytest.mark.parametrize("function", sorted(RESERVES_S.keys() - {"FanOutFunction"}))
def test_a_call_that_is_begun_with_nothing_but_the_reserve_left_ends_in_time(function: str) -> None:
    assert USUAL.longest_s + ANSWER_S <= RESERVES_S[function] < TIMEOUTS_S[function]


def test_every_client_of_the_wiring_has_one_of_these_patiences() -> None:
    source = Path(wiring.__file__).read_text()
    given = re.findall(r"client_factory\((?:self\._)?ground\.make_client(?:, (\w+))?\)", source)
    assert set(given) == {"", "ONCE", "SOON", "WAITING"}
    assert source.count("client_factory(") == len(given)


# At a socket.


def refuse(connection: socket.socket) -> None:
    connection.close()


def fail(connection: socket.socket) -> None:
    connection.recv(65_536)
    connection.sendall(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
    connection.close()


@contextmanager
def service(answer: Callable[[socket.socket], None]) -> Iterator[tuple[str, list[float]]]:
    """A service that answers each connection so; when connections were made."""
    made: list[float] = []
    kept: list[socket.socket] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    made.append(time.monotonic())
                    kept.append(connection)
                    answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", made
        for connection in kept:
            connection.close()
        listening.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("answer", [refuse, fail, lambda connection: None], ids=["closes", "fails", "hangs"])
@pytest.mark.parametrize("attempts_max", [1, 2])
def test_a_call_makes_as_many_requests_as_are_declared_and_ends_in_time(
    answer: Callable[[socket.socket], None], attempts_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    patience = Patience(attempts_max, answer_s=1)
    with service(answer) as (url, made):
        make = lambda name, config: boto3.client(name, config=config, endpoint_url=url)  # noqa: E731
        client = client_factory(make, patience)("sqs")
        began_s = time.monotonic()
        with pytest.raises((ClientError, BotoCoreError)):
            client.receive_message(QueueUrl=f"{url}/1/q")
        assert len(made) == attempts_max
        assert time.monotonic() - began_s < patience.longest_s + 0.5

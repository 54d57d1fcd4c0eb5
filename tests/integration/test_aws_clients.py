"""Clients of AWS's services, as a process makes them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from tagcast_aws.runtime.aws_clients import client_factory


def test_all_that_ask_at_once_share_one_client() -> None:
    clients: list[object] = []

    def make_client(service: str, **_: object) -> object:
        assert service == "lambda"
        clients.append(object())
        time.sleep(0.05)
        return clients[-1]

    client = client_factory(make_client, attempts_max=0)
    with ThreadPoolExecutor(9) as threads:
        found = {id(each) for each in threads.map(client, ["lambda"] * 9)}

    assert len(found) == len(clients) == 1

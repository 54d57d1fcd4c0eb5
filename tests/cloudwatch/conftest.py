from __future__ import annotations

import asyncio

import pytest
from tagcast_aws import wiring

from tests.cloudwatch.deployed import STACK, Deployed


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Deployed:
    """A deployment that watches the topic test1."""
    provider = wiring.metrics().provider
    monkeypatch.setattr(provider, "namespace", "tagcast")
    monkeypatch.setattr(provider, "service", STACK)
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "tagcast")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", STACK)
    wiring.metrics().clear_metrics()
    made = Deployed(capsys, watched=("test1",))
    monkeypatch.setattr(wiring, "process", lambda: made)
    monkeypatch.setattr(wiring, "run", lambda world, work: asyncio.run(work))
    return made

"""The implementations that the stories are played on."""

import itertools
from collections.abc import Iterator

import pytest

from tests.aws.quiet import quiet
from tests.second_opinion import implementations
from tests.second_opinion.deployed import Deployment
from tests.second_opinion.implementations import Implementation
from tests.second_opinion.lambdas import LambdaApi, lambda_api

collect_ignore = ["localstack_server.py"]
"""It runs in an environment of its own."""
NAMES = (f"s{number}" for number in itertools.count())
OTHERS = pytest.param("others", marks=pytest.mark.nightly)


@pytest.fixture(scope="session")
def lambdas() -> Iterator[LambdaApi]:
    with lambda_api() as api:
        yield api


@pytest.fixture(scope="session")
def other_processes(lambdas: LambdaApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Implementation]:
    if not (implementations.SECOND / "roto-server").exists():
        pytest.fail("make second-opinion installs what this is played on")
    with implementations.others(lambdas, tmp_path_factory.mktemp("others")) as made:
        yield made


@pytest.fixture
def aws(request: pytest.FixtureRequest, lambdas: LambdaApi, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    """A fresh stack, on the implementation that the test's parameter names; every request is judged when it is over."""
    with quiet():
        if request.param == "others":
            yield from _deployed(request.getfixturevalue("other_processes"))
            return
        with implementations.moto(lambdas, monkeypatch) as made:
            yield from _deployed(made)


def _deployed(implementation: Implementation) -> Iterator[Deployment]:
    deployment = Deployment(implementation, next(NAMES))
    yield deployment
    deployment.close()
    assert implementation.recorder.wrong == []

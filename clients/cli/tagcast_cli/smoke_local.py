"""The resources of `tagcast smoke` on a local stack: queues, role and function as on AWS, and a local HTTP server."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any

from tagcast_cli import smoke_receiver
from tagcast_cli.doctor import Deployment
from tagcast_cli.job_run import Archive, Days, JobError, run_job
from tagcast_cli.receiver import Server
from tagcast_cli.screen import console
from tagcast_cli.smoke_aws import Endpoint, JobRun, OnAws, PlaceError


@dataclass(frozen=True)
class LocalDeployment(Deployment):
    """A local stack. *engine* has the boto3 arguments for clients of the engine, which simulates AWS: URL and keys."""

    engine: Mapping[str, str] = field(kw_only=True, repr=False)

    @cached_property
    def client(self) -> Callable[[str], Any]:
        """A function that takes the name of an AWS service, and returns a boto3 client of the engine."""
        return cache(partial(self.session.client, **self.engine))


@dataclass
class OnLocalStack(OnAws):
    """The resources of smoke tests on the engine of a local stack. *archive* is the stack's archive."""

    deployment: LocalDeployment
    archive: Archive = field(kw_only=True)
    _server: Server | None = None
    _settings: Mapping[str, str] = field(default_factory=dict)

    def make_url(self, run: str) -> Endpoint:
        """Serve the receiver's code over HTTP on this machine, and return the endpoint.

        The URLs that the engine gives to functions do not resolve.
        """

        def respond(method: str, headers: dict[str, str], body: bytes) -> tuple[int, Mapping[str, str], bytes]:
            request = {"requestContext": {"http": {"method": method}}, "headers": headers, "body": body.decode()}
            reply = smoke_receiver.answer(request, self._settings)
            return reply["statusCode"], reply.get("headers", {}), str(reply.get("body", "")).encode()

        self._server = Server(respond).start()
        return {"protocol": "http", "url": self._server.url}

    def last_job(self) -> JobRun | None:
        """Return None, because a local stack has no nightly runs."""
        return None

    def run_job(self) -> JobRun:
        """Run the compaction job for today's files in the local stack. Return the run."""
        began_at = f"{self.now():%Y-%m-%d %H:%M} UTC"
        try:
            result = run_job("compact", self.archive, Days.of(None, None).arguments(), console(to_errors=True))
        except JobError as broken:
            raise PlaceError(str(broken)) from broken
        if result.code:
            return JobRun("FAILED", began_at, json.dumps(result.summary))
        return JobRun("SUCCEEDED", began_at)

    def remove(self, run: str, *, keep_log: bool) -> Sequence[str]:
        """Stop the server, then delete the other resources."""
        if self._server is not None:
            self._server.stop()
            self._server = None
        return super().remove(run, keep_log=keep_log)

    def _variables(self, secret: str) -> dict[str, str]:
        """Return the receiver's settings, with the engine's address and a valid key."""
        known = {"region_name": self.deployment.session.region_name, **self.deployment.engine}
        self._settings = {**super()._variables(secret), smoke_receiver.CLIENT_VARIABLE: json.dumps(known)}
        return dict(self._settings)

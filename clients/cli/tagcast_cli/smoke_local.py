"""The resources of `tagcast smoke` on a local stack: queues, role and function as on AWS, and a local HTTP server."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tagcast_cli import smoke_receiver
from tagcast_cli.doctor import Deployment
from tagcast_cli.job_run import Archive, Days, JobError, run_job
from tagcast_cli.screen import console
from tagcast_cli.smoke_aws import Endpoint, JobRun, OnAws, PlaceError


@dataclass(frozen=True)
class LocalDeployment(Deployment):
    """The stack on a local engine. *engine* has the boto3 client arguments: endpoint and credentials."""

    engine: Mapping[str, str] = field(kw_only=True, repr=False)

    def client(self, service: str) -> Any:
        """Return the client of one of the engine's services."""
        return self.session.client(service, **self.engine)


@dataclass
class OnLocalStack(OnAws):
    """Receivers on the engine of a local stack. Jobs of the stack read *archive*."""

    of: LocalDeployment
    archive: Archive = field(kw_only=True)
    _server: ThreadingHTTPServer | None = None
    _settings: Mapping[str, str] = field(default_factory=dict)

    def make_url(self, run: str) -> Endpoint:
        """Serve the receiver's code on this machine, because the engine's function URLs do not resolve."""
        settings = self._settings

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
                request = {"requestContext": {"http": {"method": self.command}}, "headers": dict(self.headers.items())}
                reply = smoke_receiver.answer({**request, "body": body}, settings)
                text = str(reply.get("body", "")).encode()
                self.send_response(reply["statusCode"])
                for name, value in {**reply.get("headers", {}), "content-length": str(len(text))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_OPTIONS = do_POST = _serve  # noqa: N815  The names are the library's.

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing: received pushes are in the log queue."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return {"protocol": "http", "url": f"http://127.0.0.1:{self._server.server_address[1]}/"}

    def last_job(self) -> JobRun | None:
        """Return None: a local stack has no nightly runs."""
        return None

    def run_job(self) -> JobRun:
        """Compact today's files in the stack."""
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
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        return super().remove(run, keep_log=keep_log)

    def _variables(self, secret: str) -> dict[str, str]:
        """Return the receiver's settings, with the engine's address and a valid key."""
        known = {"region_name": self.of.session.region_name, **self.of.engine}
        self._settings = {**super()._variables(secret), smoke_receiver.CLIENT_VARIABLE: json.dumps(known)}
        return dict(self._settings)

"""The whole service in one process tree: the front, the functions, the event sources and the engine."""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from local.data_folder import DataFolder
from local.delivery_log import printer
from local.deployment import STACK, Deployment, deploy
from local.engine import ACCESS_KEY, REGION, Engine, free_port
from local.expiry import Expiry
from local.front import Front, PortInUseError
from local.lambda_api import Invocation
from local.lambda_host import LambdaHost
from local.queue_source import QueueSource
from local.routes import Routes
from local.stream_source import StreamRules, StreamSource
from local.template import SourceSpec, Template, read_template
from local.user_functions import make_known, specs_of

ROOT = Path(__file__).resolve().parent.parent
WORKERS = {"retry": 8, "relay": 1, "sweep": 1, "archive": 1}
WORKERS_OTHERWISE = 2
BATCHES_AT_ONCE = 2
SWEEP_S = 30.0
EXPIRY_S = 60.0
STREAM_IDLE_S = 0.1
FAULT_S = 1.0
GRACE_S = 3.0


@dataclass(frozen=True)
class StackOptions:
    """What `python -m local` was asked for."""

    port: int = 8080
    folder: Path = Path(".tagcast")
    fresh: bool = False
    time_scale: float = 1.0
    template: Path = ROOT / "template.yaml"
    functions_root: Path | None = None
    user_functions: Path | None = None


class Stack:
    """One running service; `start`, then `stop`."""

    def __init__(self, options: StackOptions) -> None:
        self.options = options
        self._folder = DataFolder(options.folder)
        self._host = LambdaHost(printer(short_name))
        self._engine: Engine | None = None
        self._front: Front | None = None
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self.url = ""

    async def start(self) -> None:
        """Bring everything up; on a fault what was begun is ended again by `stop`."""
        self._loop = asyncio.get_running_loop()
        self._check_port()
        user_functions = () if self.options.user_functions is None else specs_of(self.options.user_functions)
        self._folder.take(self.options.fresh)
        await self._host.listen()
        self._engine = Engine(self._folder.engine, self._host.address, self._folder.engine_port())
        template, _ = await asyncio.gather(
            asyncio.to_thread(read_template, self.options.template), asyncio.to_thread(self._engine.start)
        )
        parameters = {"AllowPrivateEndpoints": "true", "TimeScale": f"{self.options.time_scale:g}"}
        deployment = await asyncio.to_thread(
            deploy, template, self._engine, parameters, self._folder.deployed, self.options.functions_root
        )
        for function in deployment.functions.values():
            size = WORKERS.get(short_name(function.name), WORKERS_OTHERWISE)
            self._host.deploy(function, self._common_environment(self._engine), size)
        await asyncio.to_thread(make_known, self._engine, user_functions)
        for function in user_functions:
            self._host.deploy(function, {}, WORKERS_OTHERWISE)
        await self._host.warm()
        self._start_sources(template, deployment, self._engine)
        functions = {lid: function.name for lid, function in deployment.functions.items()}
        self._front = Front(Routes(template.routes()), functions, self._host.invoke)
        port = await self._front.listen(self.options.port)
        self.url = f"http://127.0.0.1:{port}"
        self._folder.announce(
            url=self.url,
            engine_url=self._engine.url,
            engine_pid=self._engine.pid,
            outputs=dict(deployment.outputs),
        )

    async def stop(self) -> None:
        """End everything, the engine last, so that it saves what the others did."""
        if self._front is not None:
            await self._front.stop()
        self._stopping.set()
        await asyncio.to_thread(self._join, GRACE_S)
        await self._host.stop()
        await asyncio.to_thread(self._join, GRACE_S)
        if self._engine is not None:
            await asyncio.to_thread(self._engine.stop)
        self._folder.release()

    @property
    def engine_url(self) -> str:
        """Where the engine answers the AWS APIs."""
        return self._engine.url if self._engine else ""

    @property
    def broken(self) -> bool:
        """Whether the engine has died."""
        return self._engine is not None and not self._engine.alive

    def _check_port(self) -> None:
        try:
            free_port(self.options.port)
        except OSError as fault:
            raise PortInUseError(
                f"port {self.options.port} of 127.0.0.1 is in use: choose another with --port"
            ) from fault

    def _common_environment(self, engine: Engine) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": engine.url,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": ACCESS_KEY,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_XRAY_SDK_ENABLED": "false",
            "POWERTOOLS_TRACE_DISABLED": "true",
            "PYTHONPATH": str(ROOT / "layers" / "tag_matching" / "python"),
        }

    def _start_sources(self, template: Template, deployment: Deployment, engine: Engine) -> None:
        for source in template.sources():
            if source.of_stream:
                stream = self._stream_source(source, deployment, engine)
                self._every(max(STREAM_IDLE_S, stream.rules.window_s), stream.step, "the stream")
            else:
                queue = self._queue_source(source, deployment, engine)
                for _ in range(BATCHES_AT_ONCE):
                    self._every(0.0, queue.step, "the queue")
        for logical_id in template.scheduled():
            name = deployment.functions[logical_id].name
            self._every(max(1.0, SWEEP_S / self.options.time_scale), partial(self._tick, name), name)
        for logical_id, attribute in template.expiring_tables():
            expiry = Expiry(engine.client("dynamodb"), deployment.physical(logical_id), attribute)
            self._every(EXPIRY_S, partial(_collect, expiry), "expiry")

    def _queue_source(self, source: SourceSpec, deployment: Deployment, engine: Engine) -> QueueSource:
        sqs = engine.client("sqs")
        arn = deployment.outputs[f"Arn{source.logical_id}"]
        return QueueSource(
            sqs=sqs,
            queue_url=sqs.get_queue_url(QueueName=arn.split(":")[-1])["QueueUrl"],
            queue_arn=arn,
            function=deployment.functions[source.function].name,
            invoke=self._invoke,
            batch_size=int(source.properties.get("BatchSize", 10)),
            warn=warn,
        )

    def _stream_source(self, source: SourceSpec, deployment: Deployment, engine: Engine) -> StreamSource:
        sqs = engine.client("sqs")
        failures = deployment.outputs.get(f"OnFailure{source.logical_id}")

        def give_up(obituary: dict[str, object]) -> None:
            warn(f"gave up on records of the stream: {json.dumps(obituary)}")
            if failures:
                url = sqs.get_queue_url(QueueName=failures.split(":")[-1])["QueueUrl"]
                sqs.send_message(QueueUrl=url, MessageBody=json.dumps(obituary))

        return StreamSource(
            streams=engine.client("dynamodbstreams"),
            stream_arn=deployment.outputs[f"Arn{source.logical_id}"],
            function=deployment.functions[source.function].name,
            invoke=self._invoke,
            rules=StreamRules.of(source.properties, source.filters),
            on_failure=give_up,
            sleep=self._stopping.wait,
            stopped=self._stopping.is_set,
        )

    def _invoke(self, function: str, payload: bytes) -> Invocation:
        """Invoke from a thread of an event source."""
        return asyncio.run_coroutine_threadsafe(self._host.invoke(function, payload), self._loop).result()

    def _tick(self, function: str) -> None:
        event = {
            "version": "0",
            "source": "aws.events",
            "detail-type": "Scheduled Event",
            "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "region": REGION,
            "resources": [],
            "detail": {},
        }
        self._invoke(function, json.dumps(event).encode())

    def _every(self, pause_s: float, step: Callable[[], object], what: str) -> None:
        """Repeat a step in a thread of its own until the stack stops, at once if it did something."""

        def loop() -> None:
            while not self._stopping.is_set():
                try:
                    done = step()
                except (BotoCoreError, ClientError, OSError, CancelledError) as fault:
                    if not self._stopping.wait(FAULT_S):
                        warn(f"{what}: {fault}")
                else:
                    if not done:
                        self._stopping.wait(pause_s)

        thread = threading.Thread(target=loop, name=what, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _join(self, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def _collect(expiry: Expiry) -> None:
    expiry.collect(int(time.time()))


def short_name(function: str) -> str:
    """The name of a function without the stack's.

    >>> short_name("tagcast-fan-out")
    'fan-out'
    """
    return function.removeprefix(f"{STACK}-")


def warn(text: str) -> None:
    """Tell the person at the terminal."""
    print(f"{datetime.now():%H:%M:%S}  WARNING  {text}", file=sys.stderr, flush=True)  # noqa: DTZ005

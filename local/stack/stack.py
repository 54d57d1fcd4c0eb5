"""Runs the whole service in one process tree: the HTTP server, the functions, the event sources and the engine."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path

from local.engine.callers import Callers, InvocationRights, callers_of
from local.engine.deployment import STACK, Deployment, deploy
from local.engine.engine import ACCOUNT, REGION, Engine, free_port
from local.engine.engine_calls import Credentials
from local.front.authorizer import JwtAuthorizer, read_authorizer
from local.front.front import Front, PortInUseError, allow_all
from local.front.routes import Routes
from local.functions.lambda_host import LambdaHost
from local.functions.sdk_plugin import plugin_environment
from local.functions.worker import FunctionSpec
from local.rules.needs import Account
from local.sources.sources import Sources
from local.stack.data_folder import DataFolder
from local.stack.delivery_log import make_printer
from local.stack.exposition import Exposition
from local.stack.job_session import QUICK_START, JobSession
from local.stack.user_functions import make_known, specs_of
from local.template.intrinsics import Resolver
from local.template.parameters import LOCAL, check_names
from local.template.translated import Template, read_template

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "template.yaml"
WORKERS = {"fan-out": 16, "retry": 16, "relay": 1, "sweep": 1, "archive": 1, "pull": 24}
"""The maximum number of workers of each function. One topic may use half of the workers of `fan-out` and `retry`.

All workers but one start on demand.
"""
FED = ("fan-out", "retry")
YOUNG_MAX = {"fan-out": 2}
"""The maximum number of concurrent young batches of a topic. Others wait until one ends, or is no longer young."""
WORKERS_OTHERWISE = 2
WARM_LATER = ("cmq", "pull", "retry", "sweep")
"""Functions that a stack calls late or never. Their first event waits for a second."""


@dataclass(frozen=True)
class StackOptions:
    """The options of `python -m local`. *folder* has the state of the stack; *fresh* deletes that of earlier runs.

    Waits are *time_scale* times shorter. *functions_root* is a folder of handlers that replace those in `functions/`.
    *user_functions* is a Python file with the user's functions. *uses* is the file for permission decisions. *host* is
    a host name that requests may use, in addition to localhost. *parameters* are those of the template.
    """

    port: int = 8080
    folder: Path = Path(".tagcast")
    fresh: bool = False
    time_scale: float = 1.0
    template: Path = TEMPLATE
    functions_root: Path | None = None
    user_functions: Path | None = None
    uses: Path | None = None
    host: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


class Stack:
    """The whole service. Call `start` first, and `stop` at the end."""

    def __init__(self, options: StackOptions) -> None:
        self.options = options
        self._folder = DataFolder(options.folder)
        self._exposition, self._print = Exposition(), make_printer(short_name)
        self._host = LambdaHost(self._hear)
        self._measured: frozenset[str] = frozenset()
        """The functions of the deployment. The lines of other functions are not our metrics."""
        self._engine: Engine | None = None
        self._front: Front | None = None
        self._sources: Sources | None = None
        self._jobs: JobSession | None = None
        self.url = ""

    async def start(self) -> None:
        """Start all parts. If this raises an exception, call `stop` to end the parts that have started."""
        self._loop = asyncio.get_running_loop()
        self._check_port()
        user_functions = () if self.options.user_functions is None else specs_of(self.options.user_functions)
        self._folder.take(self.options.fresh)
        await self._host.listen()
        self._engine = Engine(
            self._folder.engine,
            self._host.address,
            self._folder.engine_port(),
            self.options.uses,
            self.options.host,
        )
        template, _ = await asyncio.gather(
            asyncio.to_thread(read_template, self.options.template), asyncio.to_thread(self._engine.start)
        )
        check_names(template.parameters, self.options.parameters)
        parameters = {**LOCAL, "TimeScale": f"{self.options.time_scale:g}", **self.options.parameters}
        deployment = await asyncio.to_thread(
            deploy, template, self._engine, parameters, self._folder.path / "deployed", self.options.functions_root
        )
        resolver = resolver_of(template, deployment, parameters)
        callers = callers_of(template, resolver)
        await asyncio.to_thread(self._engine.permit, callers.roles)
        await self._start_functions(self._engine, deployment, callers, user_functions)
        rights = InvocationRights(template, resolver)
        alive = partial(getattr, self._engine, "alive")
        self._sources = Sources(
            self._host, self._loop, self.options.time_scale, self._folder.engine, callers, rights, alive
        )
        await asyncio.to_thread(self._sources.start, template, deployment, self._engine)
        functions = {lid: function.name for lid, function in deployment.functions.items()}
        grounds = read_authorizer(resolver)
        authorize = allow_all if grounds is None else JwtAuthorizer(grounds).authorize
        self._front = Front(
            Routes(template.routes()),
            functions,
            self._host.invoke,
            cache(rights.allow_route),
            authorize,
            metrics=self._exposition.text,
            host=self.options.host,
            folder=str(self.options.folder.resolve()),
            user_functions=[each.name for each in user_functions],
        )
        port = await self._front.listen(self.options.port)
        self.url = f"http://127.0.0.1:{port}"
        await self._announce(self._engine, deployment, callers)

    def _hear(self, function: str, line: str) -> None:
        """Print a function's log line, unless the engine has ended. Add the service's metrics to `/metrics`."""
        if self._engine is None or self._engine.alive:
            self._print(function, line)
        if function in self._measured:
            self._exposition.hear(line)

    async def _start_functions(
        self, engine: Engine, deployment: Deployment, callers: Callers, user_functions: tuple[FunctionSpec, ...]
    ) -> None:
        """Give the host the template's and the user's functions, and wait until a worker of each has started."""
        self._measured = frozenset(function.name for function in deployment.functions.values())
        for logical_id, function in deployment.functions.items():
            name = short_name(function.name)
            environment = self._common_environment(engine, callers.functions[logical_id])
            size, young_max = WORKERS.get(name, WORKERS_OTHERWISE), YOUNG_MAX.get(name)
            self._host.deploy(function, environment, size, fed=name in FED, young_max=young_max)
        await asyncio.to_thread(make_known, engine, user_functions)
        for function in user_functions:
            self._host.deploy(function, {}, WORKERS_OTHERWISE)
        await self._host.warm({f.name for f in deployment.functions.values() if short_name(f.name) in WARM_LATER})

    async def _announce(self, engine: Engine, deployment: Deployment, callers: Callers) -> None:
        """Accept jobs, and write all addresses for the command line and other tools."""
        some_function = next(iter(deployment.functions.values()))
        owner = {**engine.environment, **engine.owner.environment}
        self._folder.write_environment({**some_function.environment, **owner})
        self._jobs = JobSession({**engine.environment, **callers.jobs.environment, "JDK_JAVA_OPTIONS": QUICK_START})
        self._folder.announce(
            url=self.url,
            engine_url=engine.url,
            engine_pid=engine.pid,
            time_scale=self.options.time_scale,
            outputs=dict(deployment.outputs),
            stack=STACK,
            owner_environment=owner,
            jobs={"port": await self._jobs.listen(), "token": self._jobs.token},
        )

    async def stop(self) -> None:
        """Stop all parts. The engine is last, so that it saves all changes."""
        if self._jobs is not None:
            await self._jobs.stop()
        if self._front is not None:
            await self._front.stop()
        if self._sources is not None:
            await asyncio.to_thread(self._sources.abandon if self.broken else self._sources.stop)
        await self._host.stop()
        if self._sources is not None:
            await asyncio.to_thread(self._sources.join)
        if self._engine is not None:
            await asyncio.to_thread(self._engine.stop)
        self._folder.release()

    @property
    def engine_url(self) -> str:
        """The endpoint URL of the engine's AWS APIs; empty before the start."""
        return self._engine.url if self._engine else ""

    @property
    def broken(self) -> str:
        """The reason why the stack cannot continue; empty if it can."""
        of_engine = "" if self._engine is None else self._engine.why_ended
        return of_engine or ("" if self._sources is None else self._sources.broken)

    def _check_port(self) -> None:
        try:
            free_port(self.options.port)
        except OSError as fault:
            raise PortInUseError(self.options.port) from fault

    def _common_environment(self, engine: Engine, credentials: Credentials) -> dict[str, str]:
        return {
            **engine.environment,
            **credentials.environment,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_XRAY_SDK_ENABLED": "false",
            "POWERTOOLS_TRACE_DISABLED": "true",
            "PYTHONPATH": os.pathsep.join((str(ROOT / "layers" / "tag_matching" / "python"), str(ROOT))),
            **plugin_environment(engine.frames),
        }


def resolver_of(template: Template, deployment: Deployment, parameters: Mapping[str, str]) -> Resolver:
    """Return a resolver for the template's references. It knows the physical ids of the deployed resources."""
    physical = {name.removeprefix("Ref"): value for name, value in deployment.outputs.items() if name.startswith("Ref")}
    return Resolver(template, Account(ACCOUNT, REGION), STACK, parameters, physical)


def short_name(function: str) -> str:
    """Return the name of a function without the stack's name.

    >>> short_name("tagcast-fan-out")
    'fan-out'
    """
    return function.removeprefix(f"{STACK}-")

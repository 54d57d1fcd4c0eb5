import asyncio
import io
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from local.engine.engine_process import host_executor
from local.functions.lambda_host import LambdaHost
from local.functions.plain_server import plain_server
from local.functions.worker import RUNTIME_API, FunctionSpec, Invocation, LogSink, Worker
from local.stack.delivery_log import make_printer
from tests.fakes.calls import Before

HANDLER = """
import os, time
class OwnError(Exception): pass
def lambda_handler(event, context):
    match event:
        case "raise": raise OwnError("no")
        case "exit": os._exit(3)
        case "hang": time.sleep(60)
        case "answer much": return "x" * 7_000_000
        case "keep much":
            kept = b"x" * 300_000_000
            time.sleep(60)
    return {"pid": os.getpid(), "function": os.environ["AWS_LAMBDA_FUNCTION_NAME"], "event": event,
            "runtime": os.environ["AWS_LAMBDA_RUNTIME_API"]}
"""

Call = Callable[[object], Awaitable[Invocation]]


PATIENT_S, SOON_S = 60.0, 4.0
"""The time of a function begins before its process does, which takes seconds on a machine with much else to do."""


@asynccontextmanager
async def hosted(
    folder: Path,
    code: str = HANDLER,
    size: int = 1,
    timeout_s: float = PATIENT_S,
    log: LogSink = lambda function, line: None,
) -> AsyncIterator[Call]:
    """Yield what lets a host invoke a function of this code."""
    (folder / "app.py").write_text(code)
    host = LambdaHost(log)
    arn = "arn:aws:lambda:us-east-1:123456789012:function:f"
    spec = FunctionSpec("f", arn, "app.lambda_handler", folder, timeout_s, 128, {})
    host.deploy(spec, {"HOME": os.environ.get("HOME", "")}, size)
    await host.warm()
    try:
        yield lambda event: host.invoke("f", json.dumps(event).encode())
    finally:
        await asyncio.wait_for(host.stop(), 5)


async def test_a_worker_serves_one_event_after_the_other(tmp_path: Path) -> None:
    async with hosted(tmp_path) as call:
        first, second = json.loads((await call(1)).payload), json.loads((await call(2)).payload)
        assert (first["event"], second["event"], first["function"]) == (1, 2, "f")
        assert first["pid"] == second["pid"]


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ("raise", "OwnError"),
        ("exit", "Runtime.ExitError"),
        ("hang", "Sandbox.Timedout"),
        ("answer much", "Function.ResponseSizeTooLarge"),
        ("keep much", "Runtime.OutOfMemory"),
        ("x" * 6 * 1024 * 1024, "RequestTooLargeException"),
    ],
    ids=lambda given: given[:16],
)
async def test_errors_keep_their_type_and_the_next_event_is_served(tmp_path: Path, event: str, error: str) -> None:
    async with hosted(tmp_path, timeout_s=SOON_S if event == "hang" else PATIENT_S) as call:
        failed = await call(event)
        assert failed.failed
        assert json.loads(failed.payload)["errorType"] == error
        assert not (await call("fine")).failed


async def test_a_module_that_cannot_be_imported_says_so(tmp_path: Path) -> None:
    async with hosted(tmp_path, code="import no_such_module") as call:
        failed = await call(1)
        assert failed.failed
        assert "no_such_module" in json.loads(failed.payload)["errorMessage"]


async def test_workers_that_wait_for_long_end_but_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local.functions.lambda_host.REST_LOOK_S", 0.1)
    monkeypatch.setattr("local.functions.lambda_host.IDLE_S", 0.2)

    async def pids(call: Call, how_many: int) -> set[int]:
        answers = await asyncio.gather(*(call("fine") for _ in range(how_many)))
        return {json.loads(each.payload)["pid"] for each in answers}

    async with hosted(tmp_path, size=3) as call:
        bursting = await pids(call, 3)
        assert len(bursting) == 3
        deadline = time.monotonic() + PATIENT_S
        while len(left := {pid for pid in bursting if is_running(pid)}) > 1 and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        await asyncio.sleep(0.5)
        assert await pids(call, 1) == left


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_a_function_runs_on_where_nobody_reads_its_log(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    talkative = "def lambda_handler(event, context):\n    for line in range(60): print('x' * 100_000)\n"

    with os.fdopen(writer, "w", buffering=1) as out:
        async with hosted(tmp_path, talkative, timeout_s=SOON_S, log=make_printer(str, out)) as call:
            assert [await call(number) for number in range(3)] == 3 * [Invocation(b"null")]
        os.dup2(os.open(os.devnull, os.O_WRONLY), writer)  # Its rest can be written on closing.


def test_what_a_function_prints_cannot_act_on_the_terminal() -> None:
    out = io.StringIO()
    write = make_printer(str, out)

    write("mine", "hello \x1b]0;owned\x07")
    write("fan-out", '{"message": "attempted", "subscription": "A", "outcome": "sqs: \\u001b[2J"}')

    assert "\x1b" not in out.getvalue()
    assert "hello \\x1b]0;owned\\x07" in out.getvalue()


async def test_a_worker_that_is_stopped_twice_closes_its_runtime_api_once(tmp_path: Path, before: Before) -> None:
    """Its event fails while the stack ends, so both stop it. aiohttp fails if it closes a server twice at once."""
    (tmp_path / "app.py").write_text(HANDLER)
    closed = list[web.ServerRunner]()
    before.each(web.ServerRunner, "cleanup", closed.append)
    spec = FunctionSpec("f", "arn", "app.lambda_handler", tmp_path, PATIENT_S, 128, {})
    worker = Worker(spec, {}, lambda function, line: None)
    await worker.start()
    await asyncio.gather(worker.stop(), worker.stop())

    assert len(closed) == 1


async def test_two_workers_serve_two_events_at_once(tmp_path: Path) -> None:
    async with hosted(tmp_path, size=2) as call:
        hanging = asyncio.ensure_future(call("hang"))
        assert not (await call("fine")).failed
        assert not hanging.done()


async def test_as_many_events_wait_as_wait_for_the_function_that_has_most(tmp_path: Path) -> None:
    host = LambdaHost(lambda function, line: None)
    assert host.waiting == 0
    for name in "fg":
        host.deploy(FunctionSpec(name, f"arn of {name}", "app.lambda_handler", tmp_path, SOON_S, 128, {}), {}, 0)
    calls = [asyncio.ensure_future(host.invoke(name, b"{}")) for name in "fffgg"]
    await asyncio.sleep(0)
    assert host.waiting == 3
    for each in calls:
        each.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await host.stop()


async def test_only_the_engine_invokes_functions(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(HANDLER)

    host = LambdaHost(lambda function, line: None)
    spec = FunctionSpec("f", "arn", "app.lambda_handler", tmp_path, PATIENT_S, 128, {})
    host.deploy(spec, {}, 1)
    await host.listen()
    port = host.address.partition("/")[0]
    async with aiohttp.ClientSession() as page:
        for path in ("", "/", "/key"):
            async with page.post(f"http://{port}{path}/f", data="1") as refused:
                assert refused.status == 404
    executor = host_executor(host.address, lambda *call: {"otherwise": True})
    answer = await asyncio.to_thread(executor, {"FunctionName": "f"}, {"n": 1}, "id")
    assert answer["body"]["event"] == {"n": 1}
    assert await asyncio.to_thread(executor, {"FunctionName": "g"}, {}, "id") == {"otherwise": True}
    await host.stop()


async def test_only_the_worker_takes_its_events(tmp_path: Path) -> None:
    async with hosted(tmp_path) as call:
        port = json.loads((await call("fine")).payload)["runtime"].partition("/")[0]
        async with aiohttp.ClientSession() as page:
            for path in ("", "/", "/key"):
                async with page.get(f"http://{port}{path}{RUNTIME_API}/invocation/next") as refused:
                    assert refused.status == 404


async def test_a_request_that_ends_as_its_server_stops_waiting_for_it_logs_no_fault(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun, may_end, answered = asyncio.Event(), asyncio.Event(), list[bool]()

    async def serve(request: web.BaseRequest) -> web.Response:
        begun.set()
        await may_end.wait()
        await asyncio.sleep(0)  # The server stops waiting in this round of the loop.
        answered.append(True)
        return web.Response()

    def end() -> None:
        may_end.set()
        time.sleep(0.1)

    runner = web.ServerRunner(plain_server(serve, 0), shutdown_timeout=0.05)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    async with aiohttp.ClientSession() as session:
        asking = asyncio.create_task(session.get("http://{}:{}/".format(*runner.addresses[0])))
        await begun.wait()
        asyncio.get_running_loop().call_later(0.01, end)
        await runner.cleanup()
        await asyncio.wait([asking])
    assert (answered, caplog.records) == ([True], [])

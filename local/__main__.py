"""`python -m local`: runs the whole service on this machine until Ctrl-C."""

import argparse
import asyncio
import contextlib
import math
import os
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError
from tagcast_cli import OTHERS, bypass_proxies

from local.engine.engine import EngineError
from local.engine.last_error import why_not_written
from local.engine.long_lived import collect_rarely, raise_limit
from local.front.front import PortInUseError
from local.stack.data_folder import FolderInUseError
from local.stack.stack import Stack, StackOptions
from local.stack.user_functions import FunctionsFileError
from local.template.parameters import ParameterError

WATCH_S = 0.5


def port(text: str) -> int:
    """Return the port number in *text*. Raises ValueError, which argparse reports.

    >>> port("8080")
    8080
    """
    if not 0 <= (number := int(text)) <= 65_535:
        raise ValueError
    return number


def parse(arguments: Sequence[str] | None) -> tuple[StackOptions, int | None]:
    """Parse the command line. Return the options of the stack and the console's port; it is None without a console."""
    unsaid = argparse.SUPPRESS  # StackOptions has the defaults.
    parser = argparse.ArgumentParser(prog="python -m local", description=__doc__, argument_default=unsaid)
    add = parser.add_argument
    add("--port", type=port, help="port of the HTTP API on 127.0.0.1 (default: 8080)")
    add("--host", metavar="NAME", help="a host name that requests may use, in addition to localhost")
    add("--console-port", type=port, help="also serve the console, on this port of 127.0.0.1")
    add("--data", dest="folder", metavar="DATA", type=Path, help="folder of the state (default: .tagcast)")
    add("--fresh", action="store_true", help="delete the state of earlier runs")
    add("--time-scale", type=float, help="make waits N times shorter (default: 1)")
    functions = "a .py file with functions for filters and endpoints"
    add("--functions", dest="user_functions", type=Path, metavar="FILE", help=functions)
    add("--uses", type=Path, metavar="FILE", help="file that records the permissions used (default: in DATA)")
    add("--parameter", action="append", metavar="NAME=VALUE", help="a parameter of template.yaml (repeatable)")
    add("--handlers", dest="functions_root", type=Path, help=argparse.SUPPRESS)
    add("--template", type=Path, help=argparse.SUPPRESS)
    found = vars(parser.parse_args(arguments))
    console_port, given = found.pop("console_port", None), found.pop("parameter", ())
    options = StackOptions(**found, parameters=dict(each.partition("=")[::2] for each in given))
    if not (options.time_scale > 0 and math.isfinite(options.time_scale)):
        parser.error("--time-scale must be a number above 0")
    return options, console_port


def startup_text(stack: Stack, took_s: float, console_url: str | None) -> str:
    """Return the text for the terminal: the addresses of all started parts, and the variables that `tagcast` needs."""
    folder, usual = stack.options.folder, StackOptions()
    console = "" if console_url is None else f"  Console    {console_url}\n"
    fresh, settings = "make run FRESH=1", []
    if stack.options.port != usual.port:
        settings.append(f"TAGCAST_URL={stack.url}")
    if folder != usual.folder:
        fresh = f"make run FRESH=1 DATA={shlex.quote(str(folder))}"
        settings.append(f"TAGCAST_DATA={shlex.quote(str(folder.absolute()))}")
    shell = f"  Shell      export {' '.join(settings)}\n" if settings else ""
    return f"""tagcast is ready ({took_s:.1f} s)
{console}  HTTP API   {stack.url}
  OpenAPI    {stack.url}/openapi.json
  AWS APIs   {stack.engine_url}   (DynamoDB, SQS, Step Functions; access keys in {folder / "stack.json"})
  State      {folder}   ({fresh} forgets it; the engine's log is {folder / "engine" / "engine.log"})
{shell}  Try        curl -X PUT {stack.url}/topics/test1 -H 'content-type: application/json' -d '{{}}'
  Stop       Ctrl-C
"""


async def run(options: StackOptions, console_port: int | None = None) -> int:
    """Run the stack, and a console if *console_port* is not None, until a signal or a fault. Return the exit code."""
    began = time.monotonic()
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stopped.set)
    stack = Stack(options)
    code = 0
    ends = contextlib.AsyncExitStack()
    try:
        # The console's modules load while the engine starts.
        loading = [] if console_port is None else [asyncio.to_thread(import_module, "local.console.server")]
        await asyncio.gather(stack.start(), *loading)
        collect_rarely()
        console_url = None
        if console_port is not None:
            from local.console.server import ConsoleServer, desk_for

            console = ConsoleServer(desk_for(stack.url, options.folder, time_scale=options.time_scale))
            await console.start(console_port)
            ends.push_async_callback(console.stop)
            console_url = console.url
        print(startup_text(stack, time.monotonic() - began, console_url), flush=True)
        while not stopped.is_set() and not stack.broken:
            try:
                await asyncio.wait_for(stopped.wait(), WATCH_S)
            except TimeoutError:
                continue
        if stack.broken:
            code = fail(stack.broken)
    except (PortInUseError, FolderInUseError, EngineError, FunctionsFileError, ParameterError) as fault:
        code = fail(str(fault))
    except (BotoCoreError, ClientError, OSError) as fault:
        of_disk = why_not_written(fault, options.folder) if isinstance(fault, OSError) else None
        if not (sentence := stack.broken or of_disk):
            raise
        code = fail(sentence)
    finally:
        await ends.aclose()
        await stack.stop()
    return code


def fail(sentence: str) -> int:
    """Print *sentence* as an error. Return the exit code for a failure."""
    print(f"tagcast: {sentence}", file=sys.stderr, flush=True)
    return 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the stack with the command line *arguments*, and return the exit code. None stands for those of the process.

    Files that this process creates are private to the user.
    """
    os.umask(OTHERS)
    raise_limit()
    bypass_proxies()
    return asyncio.run(run(*parse(arguments)))


if __name__ == "__main__":
    sys.exit(main())

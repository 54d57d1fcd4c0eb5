"""Deploys the functions in a Python file of the user. The local stack uses them as filter functions and endpoints."""

import ast
from contextlib import suppress
from pathlib import Path

from tagcast.filters.function_filter import TIMEOUT_MAX_S

from local.engine.deployment import STACK, empty_archive
from local.engine.engine import ACCOUNT, Engine
from local.functions.worker import FunctionSpec
from local.stack.user_function import FILE_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
HANDLER = "local.stack.user_function.handle"
MEMORY_MB = 128
RUNTIME = "python3.13"


class FunctionsFileError(ValueError):
    """The file of `--functions` is not usable. The message is the reason."""


def names_in(file: Path) -> tuple[str, ...]:
    """Return the names of the functions at the top level of *file*, without names that begin with an underscore.

    Raises FunctionsFileError if *file* has no such function or cannot be read.
    """
    try:
        tree = ast.parse(file.read_text())
    except (OSError, SyntaxError, ValueError) as fault:
        raise FunctionsFileError(f"cannot read the functions of {file}: {fault}") from fault
    found = (node.name for node in tree.body if isinstance(node, ast.FunctionDef))
    names = tuple(dict.fromkeys(name for name in found if not name.startswith("_")))
    if not names:
        raise FunctionsFileError(f"{file} has no function at its top level")
    return names


def specs_of(file: Path) -> tuple[FunctionSpec, ...]:
    """Return the Lambda host's description of each function in *file*. Raises FunctionsFileError."""
    path = file.resolve()
    return tuple(
        FunctionSpec(
            name=name,
            arn=f"arn:aws:lambda:us-east-1:{ACCOUNT}:function:{name}",
            handler=HANDLER,
            folder=path.parent,
            timeout_s=float(TIMEOUT_MAX_S),
            memory_mb=MEMORY_MB,
            environment={"PYTHONPATH": str(ROOT), FILE_VARIABLE: str(path)},
        )
        for name in names_in(file)
    )


def make_known(engine: Engine, specs: tuple[FunctionSpec, ...]) -> None:
    """Create the functions in the engine. To invoke one of them, the engine passes the event to the Lambda host."""
    client = engine.client("lambda")
    for spec in specs:
        with suppress(client.exceptions.ResourceConflictException):  # Known since an earlier run.
            client.create_function(
                FunctionName=spec.name,
                Runtime=RUNTIME,
                Role=f"arn:aws:iam::{ACCOUNT}:role/{STACK}-user-functions",
                Handler=spec.handler,
                Timeout=TIMEOUT_MAX_S,
                Code={"ZipFile": empty_archive()},
            )

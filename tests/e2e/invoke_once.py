"""What `sam local invoke` does, in a process and no container: `python -m tests.e2e.invoke_once NAME ENV EVENT …`.

The function's handler is called with a real Lambda context; its answers by event are printed as JSON, in the last line.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from awslambdaric.lambda_context import LambdaContext

from tests.template import template_source

ROOT = Path(__file__).resolve().parents[2]


def main(function: str, variables: str, *events: str) -> None:
    source = template_source()
    properties = source["Globals"]["Function"] | source["Resources"][function]["Properties"]
    declared = source["Globals"]["Function"]["Environment"]["Variables"]
    given: dict[str, str] = json.loads(Path(variables).read_text())["Parameters"]
    # Like sam, this sets only what the template names.
    os.environ.update({name: given[name] for name in declared if name in given})
    os.environ["AWS_LAMBDA_FUNCTION_NAME"] = function
    memory = properties["MemorySize"]
    memory_mb = source["Parameters"][memory["Ref"]]["Default"] if isinstance(memory, dict) else memory
    os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"] = str(memory_mb)
    sys.path.insert(0, str(ROOT / properties["CodeUri"]))
    module, _, name = properties["Handler"].partition(".")
    handler = getattr(__import__(module), name)
    arn = f"arn:aws:lambda:us-east-1:123456789012:function:{function}"
    answers: dict[str, Any] = {}
    for event in events:
        deadline_ms = int((time.time() + properties["Timeout"]) * 1000)
        context = LambdaContext("8a6f1c1e-0000-4000-8000-000000000001", None, None, deadline_ms, arn)
        answers[event] = handler(json.loads(Path(event).read_text()), context)
    print(json.dumps(answers))


if __name__ == "__main__":
    main(*sys.argv[1:])

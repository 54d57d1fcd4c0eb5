"""Runs Lambda's runtime client in a worker: `python runtime.py HANDLER`.

The address of the Runtime API ends with a secret path. The compiled part of the client accepts such an address. The
other part, which reports a failed import, needs host and path separately.
"""

import sys
from pathlib import Path
from typing import Any

from awslambdaric import bootstrap
from awslambdaric.lambda_config import LambdaConfigProvider
from awslambdaric.lambda_runtime_client import LambdaRuntimeClient


class RuntimeClient(LambdaRuntimeClient):  # type: ignore[misc]
    """Lambda's runtime client, for an address `host:port/path`."""

    def __init__(self, address: str, *options: Any) -> None:
        host, _, self._path = address.partition("/")
        super().__init__(host, *options)

    def call_rapid(self, http_method: str, endpoint: str, *rest: Any) -> None:
        """Send a request to *endpoint*, a path below the path of the address."""
        super().call_rapid(http_method, f"/{self._path}{endpoint}", *rest)


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())  # Instead of the folder of this file, whose modules could hide a function's modules.
    config = LambdaConfigProvider(sys.argv)
    bootstrap.run(config.handler, RuntimeClient(config.api_address, config.use_thread_polling))

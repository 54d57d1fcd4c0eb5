"""LocalStack as it is, with one handler more: what its Step Functions ask of Lambda goes to LAMBDA_URL.

Its own Lambda runs functions in containers. The handler is added where LocalStack has a place for such ones. Run it
with the Python of `.venv-second`.
"""

import os
from typing import Any

from localstack.aws.forwarder import AwsRequestProxy
from localstack.aws.handlers import serve_custom_service_request_handlers
from localstack.runtime.main import main

LAMBDA = AwsRequestProxy(os.environ["LAMBDA_URL"], parse_response=False)


def forward(chain: Any, context: Any, response: Any) -> None:
    """Answer requests for Lambda with what LAMBDA_URL says."""
    if context.service is not None and context.service.service_name == "lambda":
        response.update_from(LAMBDA(context))
        chain.stop()


if __name__ == "__main__":
    serve_custom_service_request_handlers.append(forward)
    main()

"""The workflow of blocked lanes, on Step Functions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from tagcast_aws.runtime.aws_clients import error_code

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger
    from mypy_boto3_stepfunctions import SFNClient


class StepFunctionsWorkflow:
    """Implements the port ``Workflow``: one execution per lane and generation, idempotent by its name."""

    def __init__(self, client: SFNClient, state_machine_arn: str, logger: Logger) -> None:
        self._client = client
        self._state_machine_arn = state_machine_arn
        self._logger = logger

    def start(self, topic: str, subscription_id: str, generation: str) -> bool:
        """Start a lane's workflow; return False if the request failed. Then the relay or the sweep starts it later."""
        task = {"topic": topic, "subscription_id": subscription_id, "generation": generation, "rounds": 0}
        try:
            self._client.start_execution(
                stateMachineArn=self._state_machine_arn,
                name=execution_name(subscription_id, generation),
                input=json.dumps(task),
            )
        except (ClientError, BotoCoreError) as error:
            if (code := error_code(error)) != "ExecutionAlreadyExists":
                self._logger.warning("workflow start failed", extra={"error": code, **task})
                return False
        return True


def execution_name(subscription_id: str, generation: str) -> str:
    """Return the name of an execution, unique to lane and generation.

    >>> execution_name("07457000000000000001.3", "07457000000000000002")
    '07457000000000000001_3-07457000000000000002'
    """
    return f"{subscription_id.replace('.', '_')}-{generation}"

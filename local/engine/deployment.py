"""Deploys the translated template on the engine, as CloudFormation does on AWS."""

import hashlib
import io
import json
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError, WaiterError

from local.engine.engine import Engine, EngineError
from local.functions.worker import FunctionSpec
from local.template.translated import FUNCTION, Template

STACK = "tagcast"
BUCKET = "code"
TEMPLATE_KEY = "template.json"
DEPLOY_S = 60.0
NEVER_CREATED = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", "CREATE_IN_PROGRESS")


@dataclass(frozen=True)
class Deployment:
    """The deployed stack: *outputs* has the outputs by name, and *functions* the functions by logical id."""

    outputs: Mapping[str, str]
    functions: Mapping[str, FunctionSpec]

    def physical(self, logical_id: str) -> str:
        """Return the physical id of a resource: a table's name, a queue's URL, a function's name."""
        return self.outputs[f"Ref{logical_id}"]


def deploy(
    template: Template,
    engine: Engine,
    parameters: Mapping[str, str],
    record: Path,
    functions_root: Path | None,
) -> Deployment:
    """Create the stack, or update it if the template or the parameters have changed. Raises EngineError.

    The file *record* has a digest of the last deployment. *functions_root* is a folder with handlers that replace those
    in `functions/`; only tests set it.
    """
    body = json.dumps(template.for_the_engine(), sort_keys=True)
    digest = hashlib.sha256(f"{body}{sorted(parameters.items())}".encode()).hexdigest()
    cloudformation = engine.client("cloudformation")
    status = _status(cloudformation)
    _upload(template, engine, body)
    request = {
        "StackName": STACK,
        "TemplateURL": f"{engine.url}/{BUCKET}/{TEMPLATE_KEY}",
        "Parameters": [{"ParameterKey": k, "ParameterValue": v} for k, v in parameters.items()],
        "Capabilities": ["CAPABILITY_IAM", "CAPABILITY_NAMED_IAM"],
    }
    if status in NEVER_CREATED:
        cloudformation.delete_stack(StackName=STACK)
        try:
            cloudformation.get_waiter("stack_delete_complete").wait(
                StackName=STACK, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
            )
        except WaiterError as fault:
            raise EngineError("the engine did not delete an incomplete stack in time") from fault
        status = None
    try:
        if status is None:
            cloudformation.create_stack(**request)
        elif not record.exists() or record.read_text() != digest:
            cloudformation.update_stack(**request)
    except ClientError as refusal:
        if "No updates" not in str(refusal):  # For instance, a parameter has a wrong value.
            raise EngineError(f"the stack did not deploy: {refusal.response['Error']['Message']}") from refusal
    outputs = _await_outputs(cloudformation)
    record.write_text(digest)
    api, functions = engine.client("lambda"), {}
    for logical_id, _ in template.of_type(FUNCTION):
        folder = template.folders[logical_id]
        functions[logical_id] = _function(
            api, outputs[f"Ref{logical_id}"], (functions_root or folder.parent) / folder.name
        )
    return Deployment(outputs, functions)


def _status(cloudformation: Any) -> str | None:
    try:
        found = cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]
    except ClientError:
        return None
    return str(found["StackStatus"])


def _await_outputs(cloudformation: Any) -> dict[str, str]:
    deadline = time.monotonic() + DEPLOY_S
    while True:
        stack = cloudformation.describe_stacks(StackName=STACK)["Stacks"][0]
        status = stack["StackStatus"]
        if status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            return {each["OutputKey"]: each["OutputValue"] for each in stack["Outputs"]}
        if not status.endswith("IN_PROGRESS") or time.monotonic() > deadline:
            events = cloudformation.describe_stack_events(StackName=STACK)["StackEvents"]
            failed = [each for each in events if each["ResourceStatus"].endswith("FAILED")][:3]
            reasons = "; ".join(f"{e['LogicalResourceId']}: {e.get('ResourceStatusReason')}" for e in failed)
            raise EngineError(f"the stack did not deploy ({status}): {reasons}")
        time.sleep(0.05)


def _upload(template: Template, engine: Engine, body: str) -> None:
    """Upload the objects that CloudFormation reads. Code is a placeholder: the Lambda host runs the working tree."""
    s3 = engine.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    s3.put_object(Bucket=BUCKET, Key=TEMPLATE_KEY, Body=body.encode())
    stand_in = empty_archive()
    for logical_id, path in template.folders.items():
        s3.put_object(Bucket=BUCKET, Key=logical_id, Body=path.read_bytes() if path.is_file() else stand_in)


def empty_archive() -> bytes:
    """Return a zip file that stands for the code of a function. The Lambda host runs the working tree instead."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr(zipfile.ZipInfo("app.py"), "# The local stack runs the working tree.\n")
    return archive.getvalue()


def _function(api: Any, name: str, folder: Path) -> FunctionSpec:
    found = api.get_function_configuration(FunctionName=name)
    return FunctionSpec(
        name=name,
        arn=found["FunctionArn"],
        handler=found["Handler"],
        folder=folder.resolve(),
        timeout_s=float(found["Timeout"]),
        memory_mb=int(found["MemorySize"]),
        environment=found.get("Environment", {}).get("Variables", {}),
    )

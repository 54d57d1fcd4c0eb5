"""`tagcast smoke`: publishes to a queue, a function and a URL, lets pushes fail, and reports the deliveries."""

from __future__ import annotations

import base64
import json
import secrets
import signal
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text
from tagcast_client import Client, SigV4

from tagcast_cli.cmq_keys import StackName
from tagcast_cli.doctor import STYLES, Deployment, State, get_url, own_session
from tagcast_cli.job_run import Archive
from tagcast_cli.jobs import DEFAULT_DATA, DataFolder
from tagcast_cli.session import Session, session_of
from tagcast_cli.smoke_receiver import SECRET_PREFIX
from tagcast_cli.visible import visible

if TYPE_CHECKING:
    from tagcast_cli.smoke_story import Step, Story


def smoke(
    ctx: typer.Context,
    stack: StackName = None,
    data: DataFolder = DEFAULT_DATA,
    wait_archive: Annotated[
        bool, typer.Option("--wait-archive", help="Wait until Firehose has written; this takes 5 minutes or more.")
    ] = False,
    start_job: Annotated[
        bool, typer.Option("--job", help="Also run the compaction job; on AWS it takes minutes and costs 3 cents more.")
    ] = False,
) -> None:
    """Test a deployment on AWS or the local stack: retry, order, expiry, archive and a job.

    On AWS this takes two minutes and costs less than a cent. smoke creates a topic, two queues, a function with a URL
    and a role, all named tagcast_smoke_…. It uses your own AWS credentials (--profile, --region) and deletes everything
    at the end, even after Ctrl-C. Each run first deletes leftovers of earlier runs, so start one run at a time. It
    exits 1 if a promise was broken. docs/deploy.md lists the required rights.
    """
    session = session_of(ctx)
    steps: list[Step] = []

    def on_step(step: Step) -> None:
        steps.append(step)
        if not session.as_json:
            session.out.print(_step_text(step), soft_wrap=True)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    story = _local_story(session, data, on_step) if stack is None else _aws_story(session, stack, on_step)
    story.wait_archive, story.start_job = wait_archive, start_job
    began_s = story.now_s()
    try:
        story.play()
    except KeyboardInterrupt:
        session.warn("Interrupted: the remaining steps did not run.")
        raise
    finally:
        _print_end(session, story, steps, story.now_s() - began_s)
    if any(step.state is State.FAULT for step in steps):
        raise typer.Exit(1)


def _aws_story(session: Session, stack: str, on_step: Callable[[Step], object]) -> Story:
    own = own_session(session)
    from botocore.exceptions import BotoCoreError, ClientError

    from tagcast_cli.smoke_aws import OnAws
    from tagcast_cli.smoke_story import Story

    try:
        deployment = Deployment(stack, own, get_url)
        url, scale = deployment.output("Url"), deployment.parameter("TimeScale")
    except (BotoCoreError, ClientError) as fault:
        raise typer.BadParameter(str(fault)) from None
    if not url:
        raise typer.BadParameter(f"stack {stack} does not exist in {own.region_name}", param_hint="--stack")
    api = Client(url, auth=session.api.auth or SigV4(session.profile, own.region_name), user_agent="tagcast-cli")
    place = OnAws(deployment)
    return Story(api, place, place.new_run(), _new_secret(), on_step, time_scale=scale or 1.0)


def _local_story(session: Session, folder: Path, on_step: Callable[[Step], object]) -> Story:
    import boto3

    from tagcast_cli.smoke_local import LocalDeployment, OnLocalStack
    from tagcast_cli.smoke_story import Story

    archive = Archive.of_stack(folder)
    where, owner = json.loads((folder / "stack.json").read_text()), archive.owner
    keys = {name.lower(): owner[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    engine = {"endpoint_url": owner["AWS_ENDPOINT_URL"], **keys}
    own = boto3.Session(region_name=owner["AWS_DEFAULT_REGION"])
    place = OnLocalStack(LocalDeployment(where["stack"], own, get_url, engine=engine), archive=archive)
    api = Client(str(where["url"]), auth=session.api.auth, user_agent="tagcast-cli")
    return Story(api, place, place.new_run(), _new_secret(), on_step, time_scale=archive.time_scale, is_aws=False)


def _new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def _step_text(step: Step) -> Text:
    state = (f"{step.state.value:<12}", STYLES[step.state])
    return Text.assemble(state, f"  {step.name:<14} {step.took_s:5.1f} s  {visible(step.finding)}")


def _print_end(session: Session, story: Story, steps: list[Step], took_s: float) -> None:
    from local.rules.costs import usd_of_smoke_test

    failed = [step.name for step in steps if step.state is State.FAULT]
    seen = sorted({row for step in steps for row in step.shows}) if story.is_aws else []
    usd = usd_of_smoke_test(story.counted) if story.is_aws else 0.0
    if session.as_json:
        report = {"run": story.run, "steps": [asdict(step) for step in steps], "seen": seen, "failed": failed}
        session.print_json({**report, "took_s": round(took_s, 1), "usd_at_most": round(usd, 6)})
        return
    rows = ", ".join(seen) if story.is_aws else "none, since this is not AWS"
    lines = [
        f"rows of docs/aws-beliefs.md seen in this run: {rows}",
        f"failed: {', '.join(failed) or 'nothing'}",
        f"It took {took_s:.0f} s, and costs {usd:.4f} USD at most." if story.is_aws else f"It took {took_s:.0f} s.",
    ]
    session.print_lines(map(Text, lines))

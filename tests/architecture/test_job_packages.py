"""What AWS Glue installs for a job is what was tested here."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from samtranslator.yaml_helper import yaml_parse

ROOT = Path(__file__).parents[2]


def test_the_replay_job_installs_what_the_client_needs_at_the_tested_versions() -> None:
    job = yaml_parse((ROOT / "template.yaml").read_text())["Resources"]["ReplayJob"]
    installed = dict(
        each.split("==") for each in job["Properties"]["DefaultArguments"]["--additional-python-modules"].split(",")
    )
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+) ", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    needed = tomllib.loads((ROOT / "clients/python/pyproject.toml").read_text())["project"]["dependencies"]

    assert installed.keys() == {re.split(r"[^a-z0-9-]", each)[0] for each in needed}
    assert installed == {name: locked[name] for name in installed}

"""The translation of the template that is kept: used for the same template, and for no other."""

import json
from pathlib import Path

import pytest

from local.template import translated
from local.template.translated import read_template

TEMPLATE = """
Transform: AWS::Serverless-2016-10-31
Resources:
  Rows: {Type: AWS::Serverless::SimpleTable}
  Steps:
    Type: AWS::Serverless::StateMachine
    Properties: {DefinitionUri: steps.json, Role: !Sub "arn:aws:iam::1:role/r"}
"""


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(translated, "KEPT", tmp_path / "cache" / "template.json")
    return translated.KEPT


def test_a_template_is_translated_once_and_again_when_it_has_changed(tmp_path: Path, kept: Path) -> None:
    path = tmp_path / "template.yaml"
    path.write_text(TEMPLATE)
    first = read_template(path)
    assert first.folders == {"Steps": tmp_path / "steps.json"}

    found = json.loads(kept.read_text())
    found["translation"]["template"]["Resources"]["Rows"]["Properties"] = {"read": "from what was kept"}
    kept.write_text(json.dumps(found))
    assert read_template(path).resources["Rows"]["Properties"] == {"read": "from what was kept"}

    path.write_text(TEMPLATE.replace("Rows", "Lines"))
    assert set(read_template(path).resources) == {"Lines", "Steps"}
    path.write_text(TEMPLATE)
    assert read_template(path) == first


def test_what_cannot_be_kept_or_read_is_translated(tmp_path: Path, kept: Path) -> None:
    path = tmp_path / "template.yaml"
    path.write_text(TEMPLATE)
    kept.parent.write_text("not a folder")
    first = read_template(path)
    kept.parent.unlink()
    kept.parent.mkdir()
    kept.write_text("{")
    assert read_template(path) == first

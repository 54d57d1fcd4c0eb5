"""A stack says what the command line needs to find it, and how its own state is forgotten."""

from pathlib import Path

from local.__main__ import startup_text
from local.stack.stack import Stack, StackOptions


def test_a_stack_in_its_usual_place_needs_no_settings() -> None:
    said = startup_text(Stack(StackOptions()), 1.4, None)
    assert ("export" in said, "(make run FRESH=1 forgets it;" in said) == (False, True)


def test_a_stack_elsewhere_names_the_settings_of_the_command_line_and_forgets_its_own_state(tmp_path: Path) -> None:
    stack = Stack(StackOptions(port=8090, folder=tmp_path / "a b"))
    stack.url = "http://127.0.0.1:8090"
    said = startup_text(stack, 1.4, None)
    assert f"export TAGCAST_URL=http://127.0.0.1:8090 TAGCAST_DATA='{tmp_path}/a b'\n" in said
    assert f"(make run FRESH=1 DATA='{tmp_path}/a b' forgets it;" in said

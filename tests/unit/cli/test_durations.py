"""Every option that takes a duration takes it in the same way."""

import re

from tests.unit.cli.conftest import Run
from tests.unit.cli.test_help import EVERY


def test_every_duration_is_written_in_the_same_way() -> None:
    every = {" ".join([*path, each.opts[-1]]): each for path, command in EVERY.items() for each in command.params}
    durations = {where for where, option in every.items() if option.metavar == "DURATION"}

    assert [where for where, option in every.items() if option.metavar == "SECONDS"] == []
    named = re.compile(r"--(retention|interval|max-interval|timeout|grace|later|delay|since)$")
    assert durations == {where for where in every if named.search(where)}
    for where in durations:
        assert every[where].type_descriptor.parameter_info.parser("30s") == 30, where


def test_what_is_no_duration_is_told_with_examples(run: Run) -> None:
    for words in (["rotate-secret", "t", "A", "--grace"], ["consume", "t", "g", "--later"], ["listen", "--delay"]):
        refused = run(*words, "soon")
        assert (refused.exit_code, "90, 90s, 15m" in refused.stderr) == (2, True), refused.stderr

    assert "0 s to 12 h" in run("consume", "t", "g", "--later", "1d").stderr

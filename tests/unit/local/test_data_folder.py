"""The folder of a local stack: what a fresh start forgets."""

from pathlib import Path

from local.stack.data_folder import DataFolder


def test_a_fresh_start_forgets_the_engine_s_state_and_the_reports_and_keeps_what_is_not_its_own(tmp_path: Path) -> None:
    for name in ("engine/tables", "reports/audit/page.html", "mine/notes"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("x")
    for fresh, left in ((False, {"engine", "reports", "mine"}), (True, {"mine"})):
        folder = DataFolder(tmp_path)
        folder.take(fresh)
        folder.release()
        assert {each.name for each in tmp_path.iterdir() if each.is_dir()} == left

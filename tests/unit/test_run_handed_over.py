"""A run's report is held to what was asked for before anything of it is published."""

from pathlib import Path

import pytest

from bot.jobs.analyse import Shard, Subject, _run_of
from bot.jobs.measuring import Measurement
from layers.errors import InvalidInput
from layers.evidence import RunReport
from tests.render_fixture import run_report


def handed_over(folder: Path, report: RunReport, **asked: str) -> RunReport:
    """Return what is read of a results folder, asked about a commit and a branch."""
    (folder / "run.json").write_text(report.model_dump_json(by_alias=True))
    wanted = Measurement("run", asked.get("sha", report.stack.commit))
    subject = Subject(wanted, folder, asked.get("branch", "main"))
    return _run_of(subject, Shard("whole", folder))


def test_pull_requests_go_to_the_branch_that_was_analysed_or_stand_on_one_another(
    tmp_path: Path,
) -> None:
    report = run_report()
    assert [pull.base for pull in report.pull_requests] == ["main", report.pull_requests[0].branch]

    assert handed_over(tmp_path, report).run_id == report.run_id


def test_a_run_that_names_another_branch_is_refused(tmp_path: Path) -> None:
    report = run_report()
    with pytest.raises(InvalidInput, match="has a pull request to main, not to trunk"):
        handed_over(tmp_path, report, branch="trunk")

    first, *rest = report.pull_requests
    moved = first.model_copy(update={"base": "production"})
    with pytest.raises(InvalidInput, match="has a pull request to production, not to main"):
        handed_over(tmp_path, report.model_copy(update={"pull_requests": [moved, *rest]}))


def test_a_run_of_another_commit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is about commit"):
        handed_over(tmp_path, run_report(), sha="f" * 40)

"""The table of `make bench`, from a run's results to markdown."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.table import main, read, render
from bot import results
from bot.publishing.local import open_local
from layers.errors import InvalidInput
from layers.evidence import EvidenceFile, Iteration, RunReport
from tests.golden_files import assert_golden
from tests.render_fixture import empty_report, evidence, run_report, second_iteration


def both() -> dict[int, EvidenceFile]:
    """The evidence of both accepted iterations."""
    first = evidence()
    second = first.model_copy(update={"iteration": second_iteration()})
    return {1: first, 2: second}


def slower_to_measure() -> Iteration:
    """The first iteration with one other number."""
    return evidence().iteration.model_copy(update={"wall_s": 164.0})


def written(folder: Path, report: RunReport, found: dict[int, EvidenceFile]) -> Path:
    """Leave a run's results as `fvec run --out FOLDER` does."""
    for number, file in found.items():
        place = folder / "forge" / "pulls" / str(number)
        place.mkdir(parents=True)
        (place / "evidence.json").write_text(file.model_dump_json(by_alias=True))
    (folder / "run.json").write_text(report.model_dump_json(by_alias=True))
    return folder / "run.json"


def test_the_table_of_a_run_is_the_golden_one() -> None:
    assert_golden("bench_table.md", render(run_report(), both()) + "\n")


def test_a_run_that_changed_nothing_says_so() -> None:
    assert render(empty_report(), {}).split("\n\n")[:2] == [
        "nothing to try: the cookbook holds no card for the layers features, server, config",
        "No change was accepted.",
    ]


def test_requests_are_those_of_the_confirming_pairs_and_absent_without_evidence() -> None:
    known, unknown = (render(run_report(), found) for found in (both(), {}))
    assert "throughput, CPU: 4 pairs, 480 requests an arm; p99" in known
    assert "throughput, CPU: 4 pairs; p99" in unknown


def test_untrusted_text_stays_in_its_cell() -> None:
    report = run_report()
    first = report.iterations[0]
    hostile = first.hypothesis.model_copy(update={"title": "a | b\n\n# <b>@all</b>"})
    iterations = [first.model_copy(update={"hypothesis": hostile}), *report.iterations[1:]]
    text = render(report.model_copy(update={"iterations": iterations}), {})
    row = next(line for line in text.splitlines() if line.startswith("| a "))
    assert row.startswith(r"| a \| b # &lt;b&gt;@&#8203;all&lt;/b&gt; (exact) | ")


def test_what_a_run_leaves_is_read_with_the_evidence_of_its_pull_requests(tmp_path: Path) -> None:
    publisher = open_local(tmp_path)
    pulls = [
        publisher.publish(found, "", "main", f"fvec/{number}") for number, found in both().items()
    ]
    report = run_report().model_copy(update={"pull_requests": pulls})
    files = results.write(tmp_path, report)
    assert read(files["run"]) == (report, both())


def test_the_command_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(written(tmp_path, run_report(), both()))]) == 0
    assert capsys.readouterr() == (render(run_report(), both()) + "\n", "")


@pytest.mark.parametrize("change", [{"run_id": "another"}, {"iteration": slower_to_measure()}])
def test_evidence_that_tells_of_another_run_is_refused(
    tmp_path: Path, change: dict[str, object]
) -> None:
    found = {1: evidence().model_copy(update=change), 2: both()[2]}
    with pytest.raises(
        InvalidInput, match=r"evidence\.json: does not belong to run 20261129-174512"
    ):
        read(written(tmp_path, run_report(), found))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "run.json: No such file or directory"),
        ("{", "run.json: the document: Invalid JSON"),
        ('{"schema": "fvec.run/2"}', "run.json: schema: Input should be 'fvec.run/1'"),
    ],
)
def test_what_is_no_run_is_refused_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, message: str
) -> None:
    path = tmp_path / "run.json"
    if content is not None:
        path.write_text(content)
    assert main([str(path)]) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.endswith("\n  hint: make it with: fvec run PATH --out DIR\n")


def test_the_command_takes_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert capsys.readouterr() == ("", "usage: table.py RUN.json\n")

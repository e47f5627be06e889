"""The report is a fold of the journal, whole or cut anywhere."""

from __future__ import annotations

import pytest

from layers.errors import InvalidInput
from layers.loop import report
from layers.record.journal import Entry, Journal, read
from tests.render_fixture import evidence, run_report

REPORT = run_report()
HEAD = ("run_id", "started_at", "seed", "stack", "environment", "reproduce")


@pytest.fixture(scope="module")
def entries(tmp_path_factory) -> list[Entry]:
    """The journal of the fixture's run, as `layers.loop.stations` writes one, read back from its file."""
    path = tmp_path_factory.mktemp("run") / "journal.jsonl"
    opened, data = Journal(path), REPORT.model_dump(mode="json")
    opened.append("run_started", {**{name: data[name] for name in HEAD}, "base_branch": "main"})
    profiled = {"commit": "c", "hotspots": [], "record": data["profile"]}
    opened.append(
        "calibration",
        {"work": data["noise"]["work"], "environment": data["environment"], "profile": profiled},
    )
    for block in evidence().blocks:
        opened.append("block", block)
    for number in range(REPORT.blocks_void):
        opened.append("block", evidence().blocks[number].model_copy(update={"void": "errors"}))
    for line in REPORT.sampled:
        opened.append("budget", {"left": True, "spent_s": 1.0})
        opened.append("sampled", line)
    for iteration in REPORT.iterations:
        opened.append("candidate", {"n": iteration.n, "branch": "b", "commit": "c", "patch": ""})
        for look in iteration.looks:
            opened.append("look", look)
        opened.append("iteration", iteration)
        later = {**profiled, "record": {**data["profile"], "requests": iteration.n}}
        opened.append("profile", later)
    opened.append("not_tried", REPORT.not_tried)
    for found in REPORT.on_top:
        opened.append("on_top", found)
    floors = {name: data["noise"][name] for name in ("sustained", "tail")}
    opened.append("totals", {"total": data["total"], **floors, "failure": ""})
    for pull in REPORT.pull_requests:
        opened.append("pull_request", pull)
    opened.append("knowledge", REPORT.knowledge)
    opened.append("run_finished", {"conclusion": REPORT.conclusion, "wall_s": REPORT.wall_s})
    opened.close()
    return read(path)


def test_the_report_rebuilt_from_the_file_is_the_report(entries):
    assert report.fold(entries) == REPORT


def test_a_journal_cut_after_any_entry_folds_to_what_was_known_then(entries):
    for end in range(1, len(entries)):
        cut = report.fold(entries[:end])
        kinds = [entry.kind for entry in entries[:end]]
        assert cut.conclusion == "killed before the end"
        assert cut.stack == REPORT.stack
        assert cut.iterations == REPORT.iterations[: kinds.count("iteration")]
        assert cut.pull_requests == REPORT.pull_requests[: kinds.count("pull_request")]
        assert (cut.total is None) == ("totals" not in kinds)


@pytest.mark.parametrize("start", [0, 1])
def test_a_journal_without_its_beginning_is_refused(entries, start):
    with pytest.raises(InvalidInput, match="does not begin with run_started"):
        report.fold(entries[1:] if start else [])


def test_blocks_are_those_among_the_entries_void_ones_included(entries):
    found = report.blocks(entries)
    assert found[: len(evidence().blocks)] == evidence().blocks
    assert [block.void for block in found].count("errors") == REPORT.blocks_void
    assert report.blocks(entries[:2]) == []


def test_the_profile_of_a_candidate_is_the_newest_before_it(entries):
    assert report.profile_of(entries, 1) == REPORT.profile
    second = report.profile_of(entries, 2)
    assert second is not None
    assert second.requests == 1
    assert report.profile_of(entries[:1], 1) is None


def written(*lines: tuple[str, object]) -> list[Entry]:
    return [Entry(seq, "", kind, data) for seq, (kind, data) in enumerate(lines)]


BLOCKS = [block.model_dump(mode="json") for block in evidence().blocks[:4]]
TRIAL = [("candidate", {"n": 1}), ("block", BLOCKS[0]), ("look", {})]


def test_what_a_kill_cut_short_counts_nowhere():
    cut = written(
        ("calibration", {}), *TRIAL, ("resumed", {}), ("block", BLOCKS[1]), ("iteration", {"n": 1})
    )
    assert [entry.data for entry in report.kept(cut) if entry.kind == "block"] == [BLOCKS[1]]
    assert report.blocks_of(cut, 1) == evidence().blocks[1:2]


def test_what_led_to_an_answer_counts_though_the_process_ended_after_it():
    done = written(*TRIAL, ("iteration", {"n": 1}), ("resumed", {}), ("block", BLOCKS[2]))
    assert report.blocks_of(done, 1) == evidence().blocks[:1]
    assert [entry.data for entry in report.kept(done) if entry.kind == "block"] == [
        BLOCKS[0],
        BLOCKS[2],
    ]

"""A run that proposers write for, killed around what the journal has of them.

Nobody is asked again for what the journal holds, and the result is that of a run not killed.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from layers.evidence import RunReport
from layers.record.journal import Journal, read
from tests.survival import lives, world, writing
from tests.survival.writing import QUESTIONS, Asked

KINDS = ("written", "heard")
MOMENTS = ("while it is asked", "torn", "after")
PREPARED = writing.prepared()


@dataclass(frozen=True)
class Written:
    """The run that was not killed."""

    lines: list[tuple[str, int]]
    outcome: dict[str, Any]
    asked: list[Asked]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Written:
    folder = tmp_path_factory.mktemp("written")
    lives.preload(folder, ("command",), writing.opened, writing.authors)
    place = folder / "whole"
    place.mkdir()
    root, argv = writing.place(place)
    end = lives.live(argv, place, prepare=PREPARED)
    assert end.code == 0, end.said
    found = world.outcome(root, place / "out")
    return Written(list(end.lines), found, writing.asked(place))


def killed_at(whole: Written, kind: str, nth: int, moment: str) -> int:
    """Return the moment around the n-th line of a kind, counted from 1."""
    index = [i for i, (name, _) in enumerate(whole.lines) if name == kind][nth - 1]
    before = whole.lines[index][1]
    if moment == "while it is asked":
        since = whole.lines[index - 1][1] + 3  # the first after the line before
        return random.Random(f"{kind} {nth}").randrange(since, before + 1)
    return before + MOMENTS.index(moment)


def goes_on(argv: list[str], place: Path, whole: Written) -> None:
    """Resume a run to its end; hold it to the run that was not killed."""
    end = lives.live([*argv, "--resume"], place, prepare=PREPARED)
    assert end.code == 0, end.said
    found = world.outcome(place / "ads", place / "out")
    assert {n: v for n, v in found.items() if v != whole.outcome[n]} == {}
    answered = [e for e in read(place / "out" / "journal.jsonl") if e.kind in KINDS]
    numbers = [(e.kind, e.data["number" if e.kind == "written" else "n"]) for e in answered]
    assert numbers == QUESTIONS


def test_a_run_that_is_not_killed_asks_in_order_and_tells_it_all(whole):
    assert [(one.kind, one.number) for one in whole.asked] == QUESTIONS
    assert [kind for kind, _ in whole.lines if kind in KINDS] == [kind for kind, _ in QUESTIONS]
    report = RunReport.model_validate(whole.outcome["report"] | {"wall_s": 0.0})
    verdicts = [(i.hypothesis.proposer, i.card, i.verdict.value) for i in report.iterations]
    assert verdicts == [
        ("first", writing.GOOD, "accepted"),
        ("first", writing.BAD, "rejected"),
        ("first", writing.BAD, "rejected"),
    ]
    assert all(i.story and len(i.story.steps) == 3 for i in report.iterations)
    agents = report.agents
    assert agents is not None
    assert agents.ended == "first has no other idea; second found nothing"
    assert [story.proposer for story in agents.without_candidate] == ["second", "second"]
    assert agents.backlog == ["second wrote 2, heard of 0"]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize(
    ("kind", "nth"), [("written", n) for n in range(1, 6)] + [("heard", n) for n in range(1, 4)]
)
def test_nobody_is_asked_again_for_what_the_journal_holds(whole, tmp_path, kind, nth, moment):
    _, argv = writing.place(tmp_path)
    at = killed_at(whole, kind, nth, moment)
    end = lives.live(argv, tmp_path, at=at, prepare=PREPARED)
    assert end.code is None, end.said
    held = read(tmp_path / "out" / "journal.jsonl")
    assert sum(e.kind == kind for e in held) == nth - (moment != "after")
    goes_on(argv, tmp_path, whole)
    asked = writing.asked(tmp_path)
    assert not any(one.journalled for one in asked)
    times = Counter((one.kind, one.number) for one in asked)
    assert list(times) == QUESTIONS
    again = {question for question, count in times.items() if count > 1}
    number = nth if moment != "after" else None
    assert again <= {(kind, number)}
    assert max(times.values()) <= 2
    assert moment != "torn" or again == {(kind, number)}  # it had answered, and nobody knew


def test_a_process_for_each_answer_asks_each_question_once(whole, tmp_path):
    _, argv = writing.place(tmp_path)
    for number in range(1, len(QUESTIONS) + 1):
        options = ["--resume"] if number > 1 else []
        prepare = writing.prepared(_killed_by_its_first_answer)
        end = lives.live([*argv, *options], tmp_path, prepare=prepare)
        assert end.code is None, end.said
        held = [e.kind for e in read(tmp_path / "out" / "journal.jsonl")]
        assert sum(kind in KINDS for kind in held) == number
    goes_on(argv, tmp_path, whole)
    assert writing.asked(tmp_path) == whole.asked


def test_a_run_with_other_authors_or_limits_is_refused_by_name(whole, tmp_path):
    root, argv = writing.place(tmp_path)
    end = lives.live(argv, tmp_path, at=killed_at(whole, "heard", 1, "after"), prepare=PREPARED)
    assert end.code is None, end.said
    agents = tmp_path / "agents.yml"
    agents.write_text(f"{writing.AGENTS}budget: {{tokens: 5000}}\n")
    refused(argv, tmp_path, "option agents was ")
    agents.write_text(writing.AGENTS)
    without = ["run", str(root), "--out", str(tmp_path / "out")]
    refused(without, tmp_path, 'option proposers was ["command"] and is ["cookbook"]')
    goes_on(argv, tmp_path, whole)
    assert writing.asked(tmp_path) == whole.asked


def refused(argv: list[str], place: Path, words: str) -> None:
    """Hold a resumed run to an error that changes nothing."""
    journal = place / "out" / "journal.jsonl"
    before = world.git(place / "ads", "for-each-ref"), journal.read_bytes()
    end = lives.live([*argv, "--resume"], place, prepare=PREPARED)
    assert end.code == 3, end.said
    assert "the run cannot be resumed" in end.said
    assert words in end.said
    assert (world.git(place / "ads", "for-each-ref"), journal.read_bytes()) == before


def _killed_by_its_first_answer() -> None:
    real = Journal.append

    def append(self, kind, data):
        entry = real(self, kind, data)
        if kind in KINDS:
            os.kill(os.getpid(), signal.SIGKILL)
        return entry

    Journal.append = append

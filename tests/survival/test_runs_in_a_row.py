"""Ten runs on one repository: measurements replayed from a recording, all else real.

A joint candidate was never recorded; it gets what was measured for the first of its members.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path

import pytest

from bot.publishing.local import open_local
from knowledge.cards import MAX_FINDINGS
from knowledge.store import load_cards
from layers.events import Silent
from layers.evidence import RunReport, Verdict, changes_of
from layers.registry import LAYERS
from layers.run import RunOptions, run
from tests.survival import world
from tests.survival.replay import Recording, Remembered, Trial, opener

RUNS = 10
pytestmark = pytest.mark.timeout(900)  # ten runs are a long setup on a loaded machine
TRIED = {"lookups-one-pass", "native-string-tensors", "dynamic-batching"}
BRANCH = "fvec/knowledge"


class WithJoint(Recording):
    """A recording that also answers for candidates that join recorded ones."""

    def trial(self, candidate) -> Trial:
        members = candidate.hypothesis.together
        if not members:
            return super().trial(candidate)
        trials = [self.trials[member.card, member.model] for member in members]
        assert all(trial.iteration.verdict is Verdict.ACCEPTED for trial in trials)
        return trials[0]


class OfRecorded(Remembered):
    """A layer that knows the cards alone that the recorded run tried."""

    def diagnose(self, hotspots, stack, cards):
        return super().diagnose(hotspots, stack, [card for card in cards if card.id in TRIED])

    def refusals(self, stack, cards):
        return []


@dataclass(frozen=True)
class Ran:
    """What one run reported, spent and left."""

    report: RunReport
    measured_s: float  # seconds of load in all blocks
    cards: dict[str, str]  # text by path, on the knowledge branch


def once(root: Path, out: Path, number: int, started_at: str) -> Ran:
    recording = Recording.read()
    recording = WithJoint(**{f.name: getattr(recording, f.name) for f in fields(recording)})

    @contextmanager
    def opened(*arguments: object) -> Iterator[object]:
        with opener(recording)(*arguments) as instruments:
            instruments.resume_as(f"run-{number}", started_at, 1)
            yield instruments

    options = RunOptions(out, None, None, number, None, open_local)
    layers = {name: OfRecorded(layer) for name, layer in LAYERS.items()}
    report = run(root, options, Silent(), layers, opened)
    entries = map(json.loads, (out / "journal.jsonl").read_text().splitlines())
    blocks = [entry["data"] for entry in entries if entry["kind"] == "block"]
    names = world.git(root, "ls-tree", "-r", "--name-only", BRANCH, "knowledge").split()
    cards = {name: world.git(root, "show", f"{BRANCH}:{name}") for name in names}
    return Ran(report, sum(block["wall_s"] for block in blocks), cards)


def day(number: int) -> str:
    return f"2026-11-{number + 1:02}T10:00:00+00:00"


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[Ran]:
    place = tmp_path_factory.mktemp("row")
    root = world.repository(place / "ads")
    return [once(root, place / f"out-{number}", number, day(number)) for number in range(RUNS)]


def in_place(ran: Ran) -> set[str]:
    accepted = [i for i in ran.report.iterations if i.verdict is Verdict.ACCEPTED]
    return {name for iteration in accepted for name in changes_of(iteration)}


def test_every_run_ends_with_the_same_changes(runs) -> None:
    assert in_place(runs[0])
    assert all(in_place(ran) == in_place(runs[0]) for ran in runs)


def test_later_runs_spend_less_and_measure_anew_what_they_report(runs) -> None:
    tried = [[i.verdict for i in ran.report.iterations] for ran in runs]
    assert len(tried[0]) == 4
    assert tried[1:] == [[Verdict.ACCEPTED]] * (RUNS - 1)
    for ran in runs[1:]:
        (joint,) = ran.report.iterations
        assert joint.end_to_end is not None
        assert len(joint.hypothesis.together) == 2
        assert joint.load_test is not None
        assert ran.measured_s < runs[0].measured_s
        assert ran.report.sampled[0].startswith("not drawn: earlier runs accepted each of these")


def test_cards_stay_within_their_size(runs, tmp_path) -> None:
    sizes = [sum(map(len, ran.cards.values())) for ran in runs]
    assert sizes[-1] < 1.1 * sizes[2]
    for name, text in runs[-1].cards.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    cards = load_cards(tmp_path / "knowledge").cookbook
    assert {finding.verdict for card in cards for finding in card.findings} == {
        "accepted",
        "rejected",
    }
    assert all(len(card.findings) <= MAX_FINDINGS for card in cards)

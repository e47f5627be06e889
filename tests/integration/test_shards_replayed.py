"""A run shared out between two shards: measurements replayed from a recording, all else real."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bot.publishing.local import open_local
from bot.render import pull_request
from layers.base import LayerName
from layers.errors import InvalidInput, JournalMismatch
from layers.events import Silent
from layers.evidence import EvidenceFile, RunReport, Verdict, changes_of
from layers.record import environment_record
from layers.registry import LAYERS
from layers.reverify import load
from layers.run import RunOptions, run
from layers.shards import Shard
from tests.survival import world
from tests.survival.replay import Recording, Remembered, opener

TRIED = {"lookups-one-pass", "native-string-tensors", "dynamic-batching"}
BUDGET = "budget: {candidates: 7}\n"  # of three layers in two shards: not to be divided evenly


class OfRecorded(Remembered):
    """A layer that knows the cards alone that the recorded run tried."""

    def diagnose(self, hotspots, stack, cards):
        return super().diagnose(hotspots, stack, [card for card in cards if card.id in TRIED])

    def refusals(self, stack, cards):
        return []


@dataclass
class Told(Silent):
    """Keeps what is said."""

    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.notes.append(text)


def started(root: Path, options: RunOptions, events: Silent | None = None) -> RunReport:
    layers = {name: OfRecorded(layer) for name, layer in LAYERS.items()}
    return run(root, options, events or Silent(), layers, opener(Recording.read()))


def options_of(out: Path, shard: str | None, *layers: LayerName) -> RunOptions:
    part = Shard.read(shard) if shard else None
    return RunOptions(out, layers or None, None, 0, None, open_local, shard=part)


def repository(place: Path) -> Path:
    """Make a repository like the example, with few candidates."""
    root = world.repository(place)
    with (root / ".github/fvec.yml").open("a") as manifest:
        manifest.write(BUDGET)
    world.git(root, "commit", "--quiet", "--all", "--message", "Try less")
    return root


@dataclass(frozen=True)
class Ran:
    root: Path
    out: Path
    report: RunReport

    @property
    def tried(self) -> list[str]:
        return [name for iteration in self.report.iterations for name in changes_of(iteration)]

    @property
    def evidence(self) -> list[EvidenceFile]:
        pulls = sorted(self.out.glob("forge/pulls/*"), key=lambda place: int(place.name))
        return [load(place).evidence for place in pulls]


@pytest.fixture(autouse=True)
def recorded_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be on the machine of the recording: a finished run is not gone on with on another."""
    cpu = Recording.read().environment.cpu
    monkeypatch.setattr(environment_record, "processor", lambda: cpu)


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> dict[str | None, Ran]:
    """The run by itself, and each of its two shards, on machines of their own."""
    found = {}
    for shard in (None, "1/2", "2/2"):
        place = tmp_path_factory.mktemp("machine")
        root = repository(place / "ads")
        report = started(root, options_of(place / "out", shard))
        found[shard] = Ran(root, place / "out", report)
    return found


def test_shards_try_what_the_run_tries_and_nothing_twice(ran):
    assert sorted(ran["1/2"].tried + ran["2/2"].tried) == sorted(ran[None].tried)
    assert ran["1/2"].tried
    assert ran["2/2"].tried


def test_both_shards_together_may_try_what_the_run_may(ran):
    told = [ran[shard].report.conclusion for shard in ("1/2", "2/2")]
    assert "; shard 1/2, which may try 4 of the run's 7 candidates: " in told[0]
    assert "; shard 2/2, which may try 3 of the run's 7 candidates: " in told[1]
    assert "shard" not in ran[None].report.conclusion


def test_report_evidence_and_body_name_the_shard(ran):
    for shard in ("1/2", "2/2"):
        document = json.loads((ran[shard].out / "journal.jsonl").read_text().splitlines()[0])
        assert document["data"]["basis"]["options"]["shard"] == shard
        assert ran[shard].report.shard == shard
        assert [one.shard for one in ran[shard].evidence] == [shard] * len(ran[shard].evidence)
        assert ran[shard].evidence
        for one in ran[shard].evidence:
            assert one.reproduce[-2:] == ["--shard", shard]
            assert f"This was shard {shard} of a run" in pull_request.render(one)
    assert [one.shard for one in ran[None].evidence] == [None] * len(ran[None].evidence)
    assert "This was shard" not in pull_request.render(ran[None].evidence[0])


def test_every_shard_builds_on_the_base_alone(ran):
    for shard in ("1/2", "2/2"):
        base = world.git(ran[shard].root, "rev-parse", "main").strip()
        first = next(i for i in ran[shard].report.iterations if i.verdict is Verdict.ACCEPTED)
        assert first.base_commit == base
        assert ran[shard].report.pull_requests[0].base == "main"


def test_a_finished_shard_is_not_what_another_one_goes_on_with(ran, tmp_path):
    root = repository(tmp_path / "ads")
    options = options_of(tmp_path / "out", "1/2", LayerName.FEATURES)
    started(root, options)
    told = Told()
    again = started(root, replace(options, resume=True), told)
    assert "nothing to do" in told.notes[0]
    other = started(root, replace(options, resume=True, shard=Shard(2, 2)), told)
    assert "option shard was 1/2 and is 2/2: a new one begins" in told.notes[1]
    assert [again.shard, other.shard] == ["1/2", "2/2"]


def test_an_unfinished_shard_is_resumed_as_that_shard_alone(tmp_path):
    root = repository(tmp_path / "ads")
    options = options_of(tmp_path / "out", "1/2", LayerName.FEATURES)
    whole = started(root, options)
    journal = tmp_path / "out/journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    with pytest.raises(JournalMismatch, match="option shard was 1/2 and is 2/2"):
        started(root, replace(options, resume=True, shard=Shard(2, 2)))
    resumed = started(root, replace(options, resume=True))
    assert resumed.iterations == whole.iterations


def test_a_shard_without_a_candidate_is_refused_before_anything_is_left(tmp_path):
    root = repository(tmp_path / "ads")
    with pytest.raises(InvalidInput, match="shard 8/8 has no candidate to try") as refused:
        started(root, options_of(tmp_path / "out", "8/8"))
    assert refused.value.hint == "raise budget.candidates, or take fewer shards"
    assert not (tmp_path / "out/journal.jsonl").exists()

"""`--resume` on a run that finished: its report again, or a new run where anything differs."""

from __future__ import annotations

import pytest

from layers.record import environment_record
from layers.trial import integrity
from tests.survival import world
from tests.survival.test_faults import Place


@pytest.fixture
def place(uncut, tmp_path) -> Place:
    return Place(tmp_path, world.repository(tmp_path / "ads"), tmp_path / "out", uncut)


def test_a_finished_run_is_returned_as_such_while_nothing_differs(place):
    assert place.run().code == 0
    state = place.state()
    end = place.run("--resume")
    assert (end.code, place.state()) == (0, state), end.said
    assert "finished earlier" in end.said
    place.goes_on_as_if_nothing_was()


def test_a_finished_run_on_another_ground_is_archived_and_a_new_one_begins(place, tmp_path):
    assert place.run().code == 0
    finished = place.journal.read_bytes()
    other = tmp_path / "engine"
    other.mkdir()

    def moved() -> None:
        integrity.ENGINE = other
        environment_record.processor = lambda: "Another"

    (place.root / "note.txt").write_text("x")
    world.git(place.root, "add", "note.txt")
    world.git(place.root, "commit", "--quiet", "--message", "Go on")
    end = place.run("--resume", "--seed", "5", "--budget", "60m", prepare=moved)
    assert end.code == 0, end.said
    for word in ("commit", "seed", "option minutes", "environment.cpu", "content of fvec, layers/"):
        assert f"{word} was" in end.said
    assert "a new one begins" in end.said
    (archived,) = (place.out / "earlier").glob("*/journal.jsonl")
    assert archived.read_bytes() == finished

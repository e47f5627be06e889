"""Fixtures of results of a recorded run: `pytest_plugins = ["tests.github.recorded_fixtures"]`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from bot import results
from bot.publishing.local import open_local
from bot.render import plots
from layers.agents.opening import open_proposers
from layers.base import LayerName
from layers.events import Silent
from layers.evidence import EvidenceFile
from layers.loop import instruments
from layers.registry import LAYERS
from layers.run import RunOptions, run
from tests.github.fake_github import FakeGitHub
from tests.github.recorded_results import Ran, push_base
from tests.survival import world
from tests.survival.replay import Recording, Remembered, opener

TRIED = {"lookups-one-pass", "native-string-tensors", "dynamic-batching"}
_DRAWN: dict[str, dict[str, str]] = {}  # plots by their evidence, which is that of one run


class Tried(Remembered):
    """A layer that knows the cards alone that the recorded run tried: the others take minutes."""

    def diagnose(self, hotspots, stack, cards):
        return super().diagnose(hotspots, stack, [card for card in cards if card.id in TRIED])

    def refusals(self, stack, cards):
        return []


def tried_layers() -> dict[LayerName, Tried]:
    """Return the layers of a run that is quick."""
    return {name: Tried(layer) for name, layer in LAYERS.items()}


@pytest.fixture
def tried() -> dict[LayerName, Tried]:
    """The layers of a run that is quick, to be chosen from."""
    return tried_layers()


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Let every run replay the recorded one; the environment in which each measured."""
    replay, seen = opener(Recording.read()), []

    def opened(*given: Any) -> AbstractContextManager[instruments.Instruments]:
        seen.append(dict(os.environ))
        return replay(*given)

    monkeypatch.setattr(instruments, "open_live", opened)
    monkeypatch.setattr(run, "__defaults__", (tried_layers(), None, open_proposers))
    return seen


@pytest.fixture(scope="session")
def recorded_run(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The run: read it, change nothing of its results."""
    folder = tmp_path_factory.mktemp("recorded-run")
    root, out = world.repository(folder / "ads"), folder / "out"
    options = RunOptions(out, None, None, 0, None, open_local)
    report = run(root, options, Silent(), tried_layers(), opener(Recording.read()))
    results.write(out, report)
    return Ran(root, out)


@pytest.fixture
def ran(recorded_run: Ran, tmp_path: Path) -> Ran:
    """The results of the run, to be changed."""
    return recorded_run.copied(tmp_path / "results")


@pytest.fixture
def github(ran: Ran) -> Iterator[FakeGitHub]:
    """A GitHub that has the commit which the run worked on."""
    with FakeGitHub() as fake:
        push_base(fake, ran)
        yield fake


@pytest.fixture(scope="module")
def drawn_once() -> Iterator[None]:
    """Draw the plots of equal evidence once: they are the slow part, and always the same."""
    draw = plots.of_evidence

    def remembered(evidence: EvidenceFile) -> dict[str, str]:
        key = evidence.model_dump_json()
        if key not in _DRAWN:
            _DRAWN[key] = draw(evidence)
        return _DRAWN[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "of_evidence", remembered)
        yield

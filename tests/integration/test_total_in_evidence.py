"""Whose evidence has the run's total: the change that a run accepted alone, and no other."""

from pathlib import Path
from typing import Any

from bot.publishing.local import open_local
from layers.base import LayerName
from layers.events import Silent
from layers.evidence import EvidenceFile
from layers.run import RunOptions, run
from tests.github.recorded_results import Ran
from tests.survival import world
from tests.survival.replay import Recording, opener

pytest_plugins = ["tests.github.recorded_fixtures"]


def test_one_accepted_change_has_the_total_in_its_evidence(
    tmp_path: Path, tried: dict[LayerName, Any]
) -> None:
    root, out = world.repository(tmp_path / "ads"), tmp_path / "out"
    options = RunOptions(out, (LayerName.FEATURES,), None, 0, None, open_local)
    report = run(root, options, Silent(), tried, opener(Recording.read()))
    (pull,) = report.pull_requests
    evidence = EvidenceFile.model_validate_json(
        (Path(pull.body).parent / "evidence.json").read_bytes()
    )
    assert report.total is not None
    assert evidence.total == report.total


def test_changes_that_share_a_total_do_not_have_it(ran: Ran) -> None:
    for number in (1, 2):
        text = (ran.pull(number) / "evidence.json").read_bytes()
        assert EvidenceFile.model_validate_json(text).total is None

"""The results folder of a run: a finished run's files move aside, an unfinished one's stay."""

import json

import pytest

from layers.errors import InvalidInput
from layers.session import prepared


def journal(out, *kinds):
    lines = [
        {"v": 1, "seq": seq, "at": "", "kind": kind, "data": {"run_id": "abc"}}
        for seq, kind in enumerate(kinds)
    ]
    out.mkdir()
    (out / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (out / "logs").mkdir()
    (out / "logs" / "server.log").write_text("said")
    (out / "forge").mkdir()


def test_a_finished_run_moves_aside_and_its_forge_stays(tmp_path):
    journal(tmp_path / "out", "run_started", "run_finished")
    out = prepared(tmp_path / "out")
    assert sorted(path.name for path in out.iterdir()) == ["earlier", "forge"]
    assert (out / "earlier" / "abc" / "logs" / "server.log").read_text() == "said"
    assert (out / "earlier" / "abc" / "journal.jsonl").exists()


def test_an_unfinished_run_is_left_alone(tmp_path):
    journal(tmp_path / "out", "run_started", "block")
    with pytest.raises(InvalidInput, match="did not finish"):
        prepared(tmp_path / "out")
    assert (tmp_path / "out" / "logs" / "server.log").read_text() == "said"

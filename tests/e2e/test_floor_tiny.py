"""The floor of a served stack, before any profiler: far from it, near it, and below it."""

from __future__ import annotations

import json

import pytest

from bot import cli
from layers.calibration import machine
from layers.calibration.card import peaks
from layers.errors import InvalidInput
from tests.e2e.proposals import commit

pytestmark = [pytest.mark.triton, pytest.mark.alone]
MANIFEST = ".github/fvec.yml"


def plan(root, out, capsys):
    code = cli.main(["plan", str(root), "--out", str(out), "--json"])
    return code, json.loads(capsys.readouterr().out)


def declare(root, flops, stop_at):
    floor = f"floor: {{flops_per_request: {flops:.6g}, stop_at: {stop_at}}}\n"
    commit(root, MANIFEST, "slo:\n", f"{floor}slo:\n")


def test_the_floor_decides_whether_a_profiler_is_opened(short_runs, tiny_repo, tmp_path, capsys):
    code, far = plan(tiny_repo, tmp_path / "far", capsys)
    floor = far["profile"]["floor"]
    assert code == 0
    assert (floor["action"], floor["declared"]) == ("profile", False)
    assert far["profile"]["tool"].startswith("py-spy")
    assert floor["ratio"] > 1

    # Arithmetic for a third of the time that a request took: between one and ten times the floor.
    rate = peaks(machine.calibrate(3).arms[-1])["fp32"]
    declare(tiny_repo, floor["measured_s"] / 3 * rate, 10)
    code, near = plan(tiny_repo, tmp_path / "near", capsys)
    if code == 0 and near["profile"]["floor"]["action"] == "profile":  # a stall, just then
        code, near = plan(tiny_repo, tmp_path / "again", capsys)
    assert code == 0
    assert near["profile"]["floor"]["action"] == "stop"
    assert near["profile"]["floor"]["binding"] == "arithmetic"
    assert near["profile"]["tool"] == "no profiler"
    assert near["hypotheses"] == []


def test_a_floor_above_what_is_measured_is_a_wrong_manifest(
    short_runs, tiny_repo, tmp_path, capsys
):
    declare(tiny_repo, 1e15, 1.3)
    code, error = plan(tiny_repo, tmp_path / "out", capsys)
    assert code == InvalidInput.exit_code
    assert "nothing is faster than its floor" in error["error"]["message"]
    assert MANIFEST in error["error"]["message"]

"""What `fvec floor --calibrate` shows of measurements that were made, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from bot import cli
from bot.render.calibration import calibration, calibration_document
from layers.calibration.machine import Arm, Calibration
from layers.calibration.rates import Measured

TURNS = 15


def measured(least: float) -> Measured:
    return Measured([least * (1 + turn / 100) for turn in range(TURNS)])


FOUND = Calibration(
    "A Processor",
    "numpy 2.4",
    16 << 30,
    32 << 20,
    0.1,
    (
        Arm(1, {"read": measured(9e9)}, {"fp32": measured(60e9)}),
        Arm(2, {"read": measured(15e9)}, {"fp32": measured(110e9)}),
    ),
    measured(12e-6),
    measured(3e9),
)
CARDS = [
    Path("out/hardware/this-machine-1-core.yaml"),
    Path("out/hardware/this-machine-2-cores.yaml"),
]


def test_the_best_is_the_most_of_a_rate_and_the_least_of_a_latency() -> None:
    found = json.loads(json.dumps(calibration_document(FOUND, CARDS)))["measured"]
    assert found["read of memory, 2 cores"]["best"] == pytest.approx(15e9 * 1.14)
    assert found["message between processes"]["best"] == pytest.approx(12e-6)
    for told in found.values():
        assert told["repetitions"] == TURNS
        assert told["low"] < told["median"] < told["high"]


def test_what_is_shown_says_how_the_cards_are_used() -> None:
    console = Console(width=120, markup=False)
    with console.capture() as captured:
        console.print(calibration(FOUND, CARDS))
    said = captured.get()
    assert "A Processor, by numpy 2.4" in said
    assert "68.4 GFLOP/s" in said
    assert "fvec floor --cards out --hardware this-machine-1-core" in said


def test_without_a_calibration_a_floor_needs_model_hardware_and_layout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main(["floor", "--batch", "1", "--context", "1"]) == 2
    assert "--model is missing (or --calibrate" in capsys.readouterr().err

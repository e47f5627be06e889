"""What this machine can do: intervals of medians, the cards that are written, one real measurement."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.schema import check
from layers import hardware_cards
from layers.calibration import card, machine
from layers.calibration.machine import Arm, Calibration
from layers.calibration.rates import Measured
from layers.errors import ToolFailed
from layers.floor.hardware import SCALE_UP

RATES = st.lists(st.floats(1e-6, 1e15), min_size=1, max_size=40)


@given(RATES)
def test_the_interval_holds_the_median_and_lies_within_the_repetitions(values: list[float]) -> None:
    low, high = Measured(values).interval
    assert min(values) <= low <= statistics.median(values) <= high <= max(values)


@given(st.integers(6, 60))
def test_the_interval_is_the_narrowest_that_misses_the_median_in_at_most_5_percent(n: int) -> None:
    low, high = Measured(list(range(n))).interval
    assert high == n - 1 - low  # as many below as above
    below = sum(math.comb(n, k) for k in range(int(low) + 1)) / 2**n  # fewer than low + 1 of n
    assert 2 * below <= 0.05
    assert 2 * (below + math.comb(n, int(low) + 1) / 2**n) > 0.05


def of(*values: float) -> Measured:
    return Measured(values)


def calibration(*, load: float = 0.0) -> Calibration:
    one = Arm(1, {"copy": of(9e9, 1e10, 8e9), "read": of(1.1e10)}, {"fp32": of(1e11, 2e11)})
    both = Arm(
        2,
        {"copy": of(2e10), "read": of(1.9e10)},
        {"fp32": of(3e11), "bf16": of(9e11), "int8": of(1e10)},
    )
    latency, link = of(9e-6, 7e-6), of(2e9, 3e9)
    return Calibration("A processor", "torch 2", 2**34, 2**25, load, (one, both), latency, link)


def test_a_card_is_written_for_one_core_and_for_all_and_is_read_back(tmp_path: Path) -> None:
    paths = card.write(calibration(), tmp_path)
    assert [path.stem for path in paths] == ["this-machine-1-core", "this-machine-2-cores"]
    one = hardware_cards.read("this-machine-1-core", [tmp_path])
    both = hardware_cards.read("machine-2-cores", [tmp_path])
    assert (one.memory_bytes, one.cache_bytes, one.family) == (2**34, 2**25, "cpu")
    assert (one.devices_per_node, both.devices_per_node) == (2, 1)
    assert check([tmp_path]) == []


def test_a_card_takes_the_best_of_all_repetitions(tmp_path: Path) -> None:
    card.write(calibration(), tmp_path)
    one = hardware_cards.read("this-machine-1-core", [tmp_path])
    assert one.hbm_bytes_per_s == 1.1e10
    assert one.peak("fp32") == 2e11
    assert one.links[SCALE_UP].latency_s == 7e-6
    assert one.links[SCALE_UP].bytes_per_s == 3e9


def test_narrower_operands_may_be_widened_so_no_peak_is_below_that_of_fp32(tmp_path: Path) -> None:
    card.write(calibration(), tmp_path)
    both = hardware_cards.read("this-machine-2-cores", [tmp_path])
    assert both.flops_per_s == {"fp32": 3e11, "bf16": 9e11, "fp16": 3e11, "int8": 3e11}


def test_a_card_says_how_steady_the_machine_was_and_whether_it_was_at_other_work() -> None:
    quiet, busy = calibration(), calibration(load=2.5)
    said = card.text(busy, busy.arms[0])
    assert "copy of memory: median 9 GB/s, 95 % interval 8 to 10, 3 repetitions" in said
    assert "Measured beside other work: load 2.50" in said
    assert "beside other work" not in card.text(quiet, quiet.arms[0])


def test_a_measuring_process_that_dies_is_told_with_its_last_words() -> None:
    with (
        pytest.raises(ToolFailed, match=r"on 1 cores: \w+Error"),
        machine._worker(1, -1),
    ):
        pass


@pytest.mark.alone
def test_this_machine_is_measured_and_its_cards_are_read(tmp_path: Path) -> None:
    heard: list[tuple[int, int]] = []
    found = machine.calibrate(2, lambda done, of: heard.append((done, of)))
    assert heard == [(1, 2), (2, 2)]
    for arm in found.arms:
        assert {"copy", "read"} == arm.memory.keys()
        assert "fp32" in arm.matrices
        assert all(
            len(rates.values) == 2 for rates in (*arm.memory.values(), *arm.matrices.values())
        )
    for path in card.write(found, tmp_path):
        hardware = hardware_cards.read(str(path))
        assert hardware.ridge("fp32") > 0
        assert hardware.links[SCALE_UP].latency_s > 0

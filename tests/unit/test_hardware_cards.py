"""Cards of hardware: which one a name means, what is refused, and that a person's own card counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge.schema import check
from knowledge.store import builtin_directory, load_cards
from layers import hardware_cards
from layers.errors import InvalidInput
from layers.floor.hardware import SCALE_OUT, SCALE_UP

CARD = """\
schema: fvec.card/1
kind: hardware
id: {id}
title: A device
facts:
  memory_bytes: 1.0e+9
  hbm_bytes_per_s: {rate}
  bf16_flops_per_s: 2.0e+12
  scale_up_devices: 4
  scale_up_bytes_per_s: 1.0e+9
  scale_up_reduces: true
  source_of:
    memory_bytes: maker
    hbm_bytes_per_s: maker
    bf16_flops_per_s: maker
    scale_up_devices: maker
    scale_up_bytes_per_s: maker
    scale_up_reduces: maker
sources:
  - title: "maker: its data sheet"
"""


def written(folder: Path, card: str = "own", rate: str = "1.0e+11", text: str = CARD) -> Path:
    path = folder / "hardware" / f"{card}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.format(id=card, rate=rate))
    return path


def test_every_packaged_device_has_a_family_a_ridge_and_a_source_for_each_constant() -> None:
    names = hardware_cards.devices(load_cards(builtin_directory()))
    assert "nvidia-h20" in names
    for name in names:
        card = hardware_cards.read(name)
        assert card.name == name
        assert card.family
        assert all(card.ridge(dtype) > 10 for dtype in card.flops_per_s)


def test_memory_of_an_h100_of_pcie_is_its_clock_times_its_pins() -> None:
    """1,593 MHz, both edges, 5,120 pins, 8 bits a byte: 2.039 TB/s. A floor needs all of it, not 2.0."""
    card = hardware_cards.read("h100-pcie")
    assert card.hbm_bytes_per_s == pytest.approx(1593e6 * 2 * 5120 / 8)
    assert card.hbm_bytes_per_s > 2.0e12


@pytest.mark.parametrize(
    ("dtype", "times"), [("bf16", 1), ("fp16", 1), ("fp8", 2), ("int8", 2), ("fp4", 4)]
)
def test_peaks_of_an_rtx_pro_6000_are_those_at_its_boost_clock(dtype: str, times: int) -> None:
    """188 multiprocessors, 512 multiply-adds a clock in 16 bits, 2,617 MHz: 503.8 TFLOP/s; half the bits, twice."""
    card = hardware_cards.read("rtx-pro-6000")
    assert card.peak(dtype) == pytest.approx(times * 188 * 2 * 512 * 2617e6, rel=1e-4)


@pytest.mark.parametrize(
    ("name", "gigabits"), [("b200", 400), ("gb200", 400), ("b300", 800), ("gb300", 800)]
)
def test_blackwell_has_an_adapter_for_each_device_and_its_successor_a_faster_one(
    name: str, gigabits: int
) -> None:
    """ConnectX-7 carries 400 Gb/s, ConnectX-8 800; 8 bits a byte."""
    assert hardware_cards.read(name).links[SCALE_OUT].bytes_per_s == gigabits * 1e9 / 8


def test_a_name_without_its_maker_is_enough_where_it_means_one_card() -> None:
    assert hardware_cards.read("h20") == hardware_cards.read("nvidia-h20")
    assert hardware_cards.read("H20").ridge("fp8") == pytest.approx(74.0)


def test_a_name_that_means_no_card_or_several_is_refused_with_those_that_are_near() -> None:
    with pytest.raises(InvalidInput, match="did you mean nvidia-h100-pcie, nvidia-h100-sxm"):
        hardware_cards.read("h100")
    with pytest.raises(InvalidInput, match=r"known: .*nvidia-h20"):
        hardware_cards.read("abacus")


def test_a_file_is_read_with_its_links(tmp_path: Path) -> None:
    card = hardware_cards.read(str(written(tmp_path)))
    assert card.hbm_bytes_per_s == 1e11
    assert card.devices_per_node == 4
    assert card.links[SCALE_UP].reduces
    assert SCALE_OUT not in card.links
    assert card.cache_bytes == 0


def test_a_persons_own_card_counts_before_the_packaged_one_and_a_later_folder_before_an_earlier(
    tmp_path: Path,
) -> None:
    written(tmp_path / "one", "nvidia-h20", "1.0e+11")
    written(tmp_path / "two", "nvidia-h20", "2.0e+11")
    folders = [tmp_path / "one", tmp_path / "two"]
    assert hardware_cards.read("h20", folders).hbm_bytes_per_s == 2e11
    assert hardware_cards.read("h20", folders[::-1]).hbm_bytes_per_s == 1e11


@pytest.mark.parametrize(
    ("before", "after", "line", "says"),
    [
        ("    hbm_bytes_per_s: maker\n", "", 1, "does not name the source of hbm_bytes_per_s"),
        ("memory_bytes: maker", "memory_bytes: rumour", 1, "source_of names rumour"),
        ("scale_up_reduces: maker", "reserve_bytes: maker", 1, "scale_up_reduces"),
        ("1.0e+9\n  hbm", "-1\n  hbm", 6, "greater than 0"),
        ("1.0e+9\n  hbm", '"80 GB"\n  hbm', 6, "valid number"),
        ("bf16_flops_per_s: 2.0e+12", "bf16_flop_per_s: 2.0e+12", 8, "did you mean"),
        ("  scale_up_bytes_per_s: 1.0e+9\n", "", 6, "scale_up_devices share a link"),
    ],
)
def test_a_card_that_is_wrong_is_refused_with_its_place(
    tmp_path: Path, before: str, after: str, line: int, says: str
) -> None:
    assert before in CARD
    path = written(tmp_path, text=CARD.replace(before, after, 1))
    with pytest.raises(InvalidInput) as refused:
        hardware_cards.read(str(path))
    assert says in str(refused.value)
    assert f"{path}:{line}:" in str(refused.value)


def test_the_check_of_knowledge_finds_a_constant_without_a_source(tmp_path: Path) -> None:
    written(tmp_path, text=CARD.replace("    hbm_bytes_per_s: maker\n", ""))
    (problem,) = check([tmp_path])
    assert "does not name the source of hbm_bytes_per_s" in str(problem)

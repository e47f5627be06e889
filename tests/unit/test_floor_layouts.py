"""Layouts that name nothing or divide nothing: refused, or told together with what was taken."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from bot.render import walls as shown
from layers.floor.assumed import assumptions
from layers.floor.floors import floor
from layers.floor.hardware import SCALE_OUT, SCALE_UP
from layers.floor.layout import Layout, LayoutError
from layers.floor.modules import MixtureOfExperts, Place, Step
from layers.floor.sensitivity import Question
from layers.floor.walls import Fleet, Walls, walls
from layers.floor_program.report import floor_lines, walls_lines
from tests.unit.test_floor_case_study import FP8, deepseek, h20


def place(layout: str, reserve: float = 14e9) -> Place:
    return Place(Layout.parse(layout), h20(1e-6, reserve), FP8)


def walls_of(layouts: Sequence[str], reserve: float = 14e9) -> list[Walls]:
    model = deepseek()
    return [walls(Fleet(name, model, place(name, reserve), 8192.0)) for name in layouts]


def rendered(found: Sequence[Walls]) -> str:
    console = Console(file=io.StringIO(), width=400, color_system=None)
    console.print(shown.walls(shown.WallsReport(found, [], {})))
    said = console.file
    assert isinstance(said, io.StringIO)
    return said.getvalue()


@pytest.mark.parametrize(
    "text",
    ["tp0", "ep0", "dp0", "tp8+pp0", "tp16+dp00", "tp\u0663", "tp" + "9" * 5000, "tp-1", "tp"],
)
def test_a_part_of_no_devices_or_of_no_number_is_refused(text: str) -> None:
    with pytest.raises(LayoutError, match="not tpN, epN, dpN or ppN"):
        Layout.parse(text)


@pytest.mark.parametrize(
    ("text", "same"), [("tp08", "tp8"), ("EP16+dp", "ep16+dp16"), ("tp2 + ep4 + dp", "tp2+ep4+dp2")]
)
def test_a_layout_is_known_however_it_is_written(text: str, same: str) -> None:
    assert Layout.parse(text) == Layout.parse(same)


@pytest.mark.parametrize("layout", ["tp8", "ep16+dp", "tp8+ep16+dp2", "tp8+pp2"])
def test_nothing_is_said_of_a_layout_that_divides_the_model(layout: str) -> None:
    assert assumptions(deepseek(), place(layout)) == []


def test_a_layout_that_does_not_divide_heads_or_experts_is_told() -> None:
    assert any(
        "tp12 does not divide 128 heads" in a for a in assumptions(deepseek(), place("tp12"))
    )
    (told,) = assumptions(deepseek(), place("ep24+dp"))
    assert "ep24 does not divide 256 experts" in told


@pytest.mark.parametrize(("ep", "most"), [(1, 256), (24, 11), (256, 1), (320, 1)])
def test_the_busiest_device_keeps_whole_experts(ep: int, most: int) -> None:
    module, each = MixtureOfExperts(7168, 2048, 256, 8), 3 * 7168 * 2048
    layout = Layout(dp=ep, ep=ep)
    alone = module.account(Step(1.0, 1.0), Place(layout, h20(), FP8)).resident_bytes
    router = 7168 * 256
    assert alone == pytest.approx(most * each + router)


def test_walls_say_where_the_weights_do_not_fit() -> None:
    found = walls_of(["tp2", "tp16"])
    row = next(line for line in rendered(found).splitlines() if line.startswith("tp2 "))
    assert "weights do not fit" in row
    assert rendered(found).count("weights do not fit") == 1
    lines = list(walls_lines(found, []))
    assert lines.count("  kv_capacity: the weights do not fit") == 1


def test_walls_tell_what_is_taken_of_every_layout_once() -> None:
    found = walls_of(["tp16", "tp12", "tp24"], reserve=0.0)
    for said in (rendered(found).splitlines(), list(walls_lines(found, []))):
        told = [line.rstrip() for line in said if line.startswith("assumed: ")]
        assert len(told) == 3
        assert [line for line in told if "tp12" in line] != []
        assert [line for line in told if "tp24" in line] != []
        assert [line for line in told if "reserve" in line] != []


@pytest.mark.parametrize(
    ("layout", "batch", "says"),
    [
        ("tp16", 8.0, None),
        ("tp16", 128.0, "asked for 128: a shorter context, more devices"),
        ("tp2", 1.0, "asked for 1: "),
    ],
)
def test_the_program_says_what_makes_room(layout: str, batch: float, says: str | None) -> None:
    question = Question(deepseek(), Step(batch, 8192.0), place(layout))
    lines = list(floor_lines(question.model, question.answer(), [], None))
    found = [line for line in lines if "make room" in line]
    assert [line.startswith(says) for line in found] == ([True] if says else [])


@pytest.mark.parametrize(
    ("layout", "link", "parts", "groups"),
    [
        ("tp2+pp2", SCALE_UP, 1, 1),  # within a node: what a device gets, however it comes
        ("tp8+pp2", SCALE_OUT, 8, 1),
        ("tp16+pp2", SCALE_OUT, 8, 1),  # each node of a group gets all of it
        ("tp2+dp4+pp2", SCALE_OUT, 2, 4),
        ("dp8+pp2", SCALE_OUT, 1, 8),
    ],
)
def test_each_device_of_a_group_hands_over_its_part_across_nodes(
    layout: str, link: str, parts: int, groups: int
) -> None:
    stages = floor(deepseek(), Step(64.0, 8192.0), place(layout)).parts["stages"]
    tokens = 64 / 2 / groups  # of a micro-batch
    assert stages.net_bytes == {link: pytest.approx(2 * tokens * 7168 * 2 / parts)}

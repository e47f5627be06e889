"""Layouts that name nothing or divide nothing: refused, or told together with what was taken."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.console import Console

from bot.render import walls as shown
from layers.floor.assumed import assumptions
from layers.floor.floors import floor
from layers.floor.hardware import SCALE_OUT, SCALE_UP, Link
from layers.floor.layout import Layout, LayoutError
from layers.floor.modules import MixtureOfExperts, Place, Step
from layers.floor.precision import Precision
from layers.floor.sensitivity import Question
from layers.floor.walls import Fleet, Walls, walls
from layers.floor_program.report import floor_lines, walls_lines
from tests.unit.test_floor_case_study import FP8, deepseek, h20


def place(layout: str, reserve: float = 14e9, precision: Precision = FP8) -> Place:
    links = {SCALE_UP: Link(450e9, 1e-6), SCALE_OUT: Link(25e9, 1e-6)}
    return Place(Layout.parse(layout), replace(h20(reserve=reserve), links=links), precision)


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


@pytest.mark.parametrize("layout", ["tp8", "ep16+dp", "tp8+ep16+dp2"])
def test_nothing_is_said_of_a_layout_that_divides_the_model(layout: str) -> None:
    assert assumptions(deepseek(), place(layout)) == []


def test_a_layout_that_does_not_divide_heads_or_experts_is_told() -> None:
    assert any(
        "tp12 does not divide 128 heads" in a for a in assumptions(deepseek(), place("tp12"))
    )
    (told,) = assumptions(deepseek(), place("ep24+dp"))
    assert "ep24 does not divide 256 experts" in told


@pytest.mark.parametrize(
    ("stages", "divides"),
    [
        (2, "pp2 does not divide 3 and 61 layers of one kind"),  # 58 = 2 x 29
        (3, "pp3 does not divide 58 and 61 layers of one kind"),  # 3 = 3 x 1
        (4, "pp4 does not divide 3 and 58 and 61 layers of one kind"),
    ],
)
def test_stages_that_the_layers_do_not_divide_are_told_to_be_taken_as_equal(
    stages: int, divides: str
) -> None:
    """DeepSeek-V3: attention in 61 layers, a dense block in 3 of them, experts in 58."""
    told = assumptions(deepseek(), place(f"tp8+pp{stages}"))
    assert told == [
        f"stages are taken as equal, embedding and head spread over all of them; {divides}"
    ]


def test_stages_that_the_layers_divide_still_spread_embedding_and_head() -> None:
    model = deepseek()
    even = replace(model, parts=[part for part in model.parts if part.name in {"head", "experts"}])
    assert assumptions(even, place("tp8+pp2")) == [
        "stages are taken as equal, embedding and head spread over all of them"
    ]


@pytest.mark.parametrize(
    ("layout", "up_s", "out_s", "says"),
    [
        ("tp8", 0.0, 0.0, ["the card states no latency: messages take no time"]),
        ("tp16", 0.0, 0.0, ["the card states no latency: messages take no time"]),
        ("tp8", 1e-6, 0.0, []),  # the other link is not used
        ("tp16", 1e-6, 0.0, ["the card states no latency of scale_out: its messages take no time"]),
        ("tp16", 0.0, 1e-6, ["the card states no latency of scale_up: its messages take no time"]),
        ("tp1", 0.0, 0.0, []),
    ],
)
def test_a_latency_that_is_not_stated_is_told_of_the_links_that_are_used(
    layout: str, up_s: float, out_s: float, says: list[str]
) -> None:
    links = {SCALE_UP: Link(450e9, up_s), SCALE_OUT: Link(25e9, out_s)}
    there = place(layout)
    there = replace(there, hardware=replace(there.hardware, links=links))
    assert assumptions(deepseek(), there) == says


def test_weights_that_are_widened_before_they_are_multiplied_are_told() -> None:
    """W8A16: half the bytes of BF16, and its arithmetic; a card with FP8 tensor cores could do twice that."""
    mixed = Precision(weights="fp8", experts="fp8_block")
    assert assumptions(deepseek(), place("tp8", precision=mixed)) == [
        "weights in fp8 are multiplied in bf16: math=fp8 takes them as they are",
        "experts in fp8_block are multiplied in bf16: expert_math=fp8 takes them as they are",
    ]
    model = deepseek()
    dense = replace(model, parts=[part for part in model.parts if part.name != "experts"])
    assert len(assumptions(dense, place("tp8", precision=mixed))) == 1
    four_bits = Precision(weights="int4", experts="nvfp4")  # no dtype of the card to multiply them
    assert assumptions(deepseek(), place("tp8", precision=four_bits)) == []


def test_arithmetic_that_the_card_has_no_peak_for_is_told() -> None:
    old = place("tp8")
    old = replace(old, hardware=replace(old.hardware, flops_per_s={"bf16": 312e12}))
    assert assumptions(deepseek(), old) == [
        "the card has no peak for fp8: its arithmetic is that of the next wider dtype"
    ]


def test_logits_of_several_tokens_are_told_unless_it_is_said_whose_they_are() -> None:
    there = place("tp8")
    for step, lines in (
        (Step(8.0, 1.0), 0),
        (Step(8.0, 1.0, 2048.0), 1),
        (Step(8.0, 1.0, 2048.0, 1.0), 0),
        (Step(8.0, 1.0, 3.0, 3.0), 0),
    ):
        told = [line for line in assumptions(deepseek(), there, step) if "--prefill" in line]
        assert len(told) == lines


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

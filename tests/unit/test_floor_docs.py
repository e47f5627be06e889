"""docs/floor.md says what the code says: the numbers of its tables are computed anew."""

from __future__ import annotations

import re
from pathlib import Path

from layers import hardware_cards
from layers.floor import configs
from layers.floor.floors import floor
from layers.floor.layout import Layout
from layers.floor.modules import Place, SparseIndex, Step
from layers.floor.triage import seconds
from layers.floor.walls import Fleet, bound, crossovers, walls
from tests.unit.test_floor_case_study import EP, FP8, INDEX, TP, at, deepseek, h20
from tests.unit.test_floor_command import DEEPSEEK

DOCS = (Path(__file__).parents[2] / "docs/floor.md").read_text(encoding="utf-8")
R1 = DEEPSEEK | {
    "num_nextn_predict_layers": 1,
    "torch_dtype": "bfloat16",
    "quantization_config": {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "activation_scheme": "dynamic",
        "weight_block_size": [128, 128],
    },
}


def row(start: str) -> str:
    """Return the third cell of the one row whose first begins so: what is so here."""
    (found,) = [line for line in DOCS.splitlines() if line.startswith(f"| {start}")]
    return found.split("|")[3].strip()


def wall(layout: Layout, resource: str, index: SparseIndex | None = None) -> float:
    found = walls(Fleet("one", deepseek(index), Place(layout, h20(), FP8), 8192.0)).walls
    (sequences,) = [one.sequences for one in found if one.resource == resource]
    assert sequences is not None
    return sequences


def test_the_case_study_s_table_holds_the_walls_that_are_computed() -> None:
    assert row("TP16, sequences of 8K that fit") == f"{wall(TP, 'kv_capacity'):.1f}"
    assert row("TP16, KV-bandwidth wall").startswith(f"{wall(TP, 'kv_bandwidth')} sequences")
    assert row("the same with sparse attention").startswith(f"{wall(TP, 'kv_bandwidth', INDEX)},")
    assert row("capacity wall with").startswith(f"{wall(TP, 'kv_capacity', INDEX):.1f}")
    assert f"from {wall(EP, 'compute')} sequences on" in row("attention by request")
    assumed = next(line for line in DOCS.splitlines() if line.startswith("| EP16+DP, sequences"))
    assert f"{wall(EP, 'kv_capacity'):.0f} without an indexer" in assumed
    assert f"{wall(EP, 'kv_capacity', INDEX):.0f} with its keys" in assumed


def test_the_case_study_s_table_holds_the_ratios_that_are_computed() -> None:
    fleets = [
        Fleet(str(layout), deepseek(), Place(layout, h20(), FP8), 8192.0) for layout in (TP, EP)
    ]
    loads = {one.metric: one.sequences for one in crossovers(fleets)}
    assert loads["hbm"] == loads["t_opt"]
    said = f"from {loads['hbm']} sequences on (HBM, t_opt), {loads['t_sum']} (t_sum)"
    assert row("TP16 and EP16+DP cross") == said
    one = [at(1, layout, latency_s=16.7e-6).times.t_opt_s for layout in (EP, TP)]
    assert row("single stream").startswith(f"{one[0] / one[1]:.2f} times")
    read = [at(64, x).whole.hbm_bytes - at(64, x).whole.sequence_bytes for x in (EP, TP)]
    assert row("same-batch weight traffic").startswith(f"{read[0] / read[1]:.2f} times")


def test_the_published_deployment_has_the_floors_that_are_computed() -> None:
    model, stored = configs.read(R1)
    place = Place(EP, hardware_cards.read("h20"), stored)
    rows = re.findall(
        r"^\| (1|8|32) \| ([\d.]+) ms \| (.+?) \| (.+?) \| (.+?) \| ([\d.]+) \|", DOCS, re.MULTILINE
    )
    assert len(rows) == 3
    for each, measured, opt, together, binds, ratio in rows:
        found = floor(model, Step(16.0 * int(each), 4900.0, 2.0), place, drafts=1)
        assert seconds(float(found.times.t_opt_s)) in {opt, opt.replace(".0 ", " ")}
        assert seconds(float(found.times.t_sum_s)) in {together, together.replace(".0 ", " ")}
        assert bound(found).replace("_", " ") == binds
        assert f"{float(measured) / 1e3 / found.times.t_opt_s:.2f}" == ratio

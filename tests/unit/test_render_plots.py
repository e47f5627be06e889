import re
from xml.parsers import expat

import pytest

from bot.render import plots
from layers.evidence import HotspotRecord
from tests.render_fixture import (
    NOISE,
    PROFILE,
    accepted_iteration,
    evidence,
    refused_iterations,
    run_report,
)


def texts(svg: str) -> list[str]:
    """Return the text elements of well-formed XML; raises ExpatError for any other."""
    found: list[str] = []
    open_tags: list[str] = []

    def start(tag, _attributes):
        open_tags.append(tag)
        if tag == "text":
            found.append("")

    def data(text):
        if open_tags[-1:] == ["text"]:
            found[-1] += text

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _tag: open_tags.pop()
    parser.CharacterDataHandler = data
    parser.Parse(svg.encode())
    parser.Parse(b"", 1)
    return found


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    return plots.of_evidence(evidence())


def test_a_pull_request_has_three_plots(drawn):
    assert list(drawn) == ["pairs", "latency", "time"]


def test_the_same_evidence_gives_the_same_bytes(drawn):
    assert plots.of_evidence(evidence()) == drawn


def test_a_plot_is_one_svg_element_without_date_or_version(drawn):
    for svg in drawn.values():
        assert svg.startswith("<svg")
        assert "<metadata" not in svg
        assert "matplotlib" not in svg.lower()


def test_text_is_text_and_takes_the_colour_of_the_page(drawn):
    assert {"p50", "p95", "p99", "SLO for p99", "latency at 38.2 req/s, ms"} <= set(
        texts(drawn["latency"])
    )
    for svg in drawn.values():
        assert "fill: currentColor" in svg
        assert plots.INK not in svg
        assert "DejaVu" not in svg


def test_bars_say_what_the_evidence_says(drawn):
    assert {"47.8", "31.4"} <= set(texts(drawn["latency"]))
    assert {"31.0", "19.2"} <= set(texts(drawn["time"]))


def test_a_run_has_a_plot_for_whatever_was_measured():
    drawn = plots.of_run(run_report(), {1: evidence().blocks})
    assert list(drawn) == [
        "pairs-1", "latency-1", "time-1", "pairs-2", "latency-2", "pairs-4", "pairs-5",
        "profile", "total",
    ]  # fmt: skip


def test_what_was_not_measured_is_not_drawn():
    assert plots.paired_ratios(refused_iterations()[0], NOISE.work) == ""
    assert plots.cpu_by_process([]) == ""
    assert plots.profile(PROFILE.model_copy(update={"hotspots": []})) == ""


def test_a_void_block_does_not_move_the_bars():
    blocks = evidence().blocks
    void = blocks[0].model_copy(update={"void": "neighbour", "cpu_s": {"features": 1e6}})
    assert plots.cpu_by_process([*blocks, void]) == plots.cpu_by_process(blocks)


def test_names_of_a_repository_are_not_read_as_formulas():
    spot = HotspotRecord(process="m", place="$\\frac{1}{0}$<b> in m.py", share=0.5)
    svg = plots.profile(PROFILE.model_copy(update={"hotspots": [spot]}))
    assert "m: $\\frac{1}{0}$<b>" in texts(svg)


def test_a_plot_that_is_a_file_brings_its_ground(drawn):
    alone = plots.standalone(drawn["pairs"])
    assert alone.count("prefers-color-scheme:dark") == 1
    assert re.match(r"<svg[^>]*><style>", alone)
    assert texts(alone) == texts(drawn["pairs"])


def test_an_accepted_change_is_drawn_with_its_interval():
    svg = plots.paired_ratios(accepted_iteration(), NOISE.work)
    assert {"noise floor", "pair of a look", "fresh pair", "estimate, 95 %"} <= set(texts(svg))

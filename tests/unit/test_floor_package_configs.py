"""All configurations of aiconfigurator-core, where it is installed, and how a figure is compared with a stated one."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import model_configs
from benchmarks.model_configs import Line, agreement
from layers.floor.configs import read

FOLDER = model_configs.installed()
needs_package = pytest.mark.skipif(
    FOLDER is None, reason="aiconfigurator-core is not installed: pip install --group silicon"
)


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    assert FOLDER is not None
    return list(model_configs.lines(FOLDER))


@needs_package
def test_every_configuration_is_accounted(lines: list[Line]) -> None:
    assert len(lines) >= 80
    assert [line.refused for line in lines if line.model is None] == []


@needs_package
def test_every_total_and_active_count_that_is_stated_is_met(lines: list[Line]) -> None:
    found = [(line.name, kind) for line in lines for kind in (line.total, line.active)]
    missed = {name for name, kind in found if kind.startswith("off")}
    assert all(name.startswith(tuple(model_configs.LEFT_OUT)) for name in missed)
    within = [line for line in lines if line.total.startswith("1 %")]
    assert len(within) > 0.75 * sum(line.stated[0] is not None for line in lines)


@needs_package
def test_a_checkpoint_that_is_quantised_takes_less_than_its_original(lines: list[Line]) -> None:
    by_name = {line.name: line for line in lines}
    for original, smaller in (
        ("Qwen--Qwen3-235B-A22B", "nvidia--Qwen3-235B-A22B-NVFP4"),
        ("deepseek-ai--DeepSeek-V3.2", "nvidia--DeepSeek-V3.2-NVFP4"),
        ("zai-org--GLM-5.2", "zai-org--GLM-5.2-FP8"),
    ):
        bits = [model_configs.kept_bytes(by_name[name]) for name in (original, smaller)]
        assert bits[1] < 0.65 * bits[0]


def test_the_table_says_how_each_line_agrees_and_why_one_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = '"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100'
    good = f'{{"model_type": "llama", "intermediate_size": 100, {sizes}}}'
    (tmp_path / "us--tiny-9B_config.json").write_text(good)
    (tmp_path / "us--elm_config.json").write_text('{"model_type": "elm"}')
    assert model_configs.main([str(tmp_path)]) == 1
    told = capsys.readouterr().out
    assert "| us--elm | refused: model_type: 'elm' is not declared" in told
    assert "9B (off by -100.0%)" in told
    assert told.endswith("refused: 1\nmissed: us--tiny-9B\n")
    assert model_configs.main([str(tmp_path / "nowhere")]) == 2


@pytest.mark.parametrize(
    ("name", "stated"),
    [
        ("Qwen--Qwen3-0.6B", ("0.6B", None)),
        ("Qwen--Qwen3.5-35B-A3B", ("35B", "3B")),
        ("us--Other-8x7B-v0.1", (None, None)),
        ("us--Other-17B-16E-Instruct", (None, None)),
        ("us--oss-120b", ("120B", None)),
        ("us--Other", (None, None)),
        ("openai--gpt-oss-120b", ("117B", "5.1B")),
    ],
)
def test_a_name_states_a_total_unless_it_counts_experts(
    name: str, stated: tuple[str | None, str | None]
) -> None:
    assert Line(name).stated == stated


@pytest.mark.parametrize(
    ("stated", "value", "kind"),
    [
        ("671B", 671.9e9, "1 %"),
        ("8B", 8.19e9, "rounded"),
        ("32B", 32.76e9, "cut off"),
        ("1.6T", 1.573e12, "rounded"),
        ("1.6T", 1.5e12, "off by -6.2%"),
        ("8B", 9.0e9, "off by +12.5%"),
    ],
)
def test_a_figure_agrees_within_1_percent_by_rounding_or_by_cutting_off(
    stated: str, value: float, kind: str
) -> None:
    assert agreement(stated, {"": value}) == kind


def test_the_reading_that_agrees_is_named() -> None:
    assert agreement("8B", {"": 8.77e9, "without vision": 8.05e9}) == "1 %, without vision"


def test_a_line_of_a_tied_model_counts_the_table_once() -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 10,
        "vocab_size": 100,
        "tie_word_embeddings": True,
    }
    line = Line("us--tiny", *read(config))
    assert model_configs.kept_bytes(line) == 2 * (6400 + 4 * 64 * 64 + 3 * 640)

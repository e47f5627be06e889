"""`fvec floor` and `fvec walls` from arguments to documents: the case study, and what is refused.

The assumptions that reproduce the paper's figures are those of test_floor_case_study; here they are
a person's: a config.json, a hardware card of one's own and --precision.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bot import cli
from tests.unit.test_render_plots import texts

DEEPSEEK: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "vocab_size": 129280,
    "tie_word_embeddings": False,
}
SPARSE = DEEPSEEK | {
    "architectures": ["DeepseekV32ForCausalLM"],
    "model_type": "deepseek_v32",
    "index_head_dim": 128,
    "index_n_heads": 64,
    "index_topk": 2048,
}
ALL_FP8 = (
    "weights=fp8,experts=fp8,cache=bf16,activations=bf16,dispatched=fp8,math=fp8,"
    "expert_math=fp8,attention_math=bf16"
)
CARD = """\
schema: fvec.card/1
kind: hardware
id: h20-case-study
title: H20 with the reserve and the latency that reproduce the paper
facts:
  memory_bytes: 96000000000
  hbm_bytes_per_s: 4.0e+12
  bf16_flops_per_s: 1.48e+14
  fp8_flops_per_s: 2.96e+14
  scale_up_devices: 8
  scale_up_bytes_per_s: 4.5e+11
  scale_out_bytes_per_s: 2.5e+10
  {latency}
  reserve_bytes: 14000000000
  source_of:
    memory_bytes: report
    hbm_bytes_per_s: report
    bf16_flops_per_s: report
    fp8_flops_per_s: report
    scale_up_devices: report
    scale_up_bytes_per_s: report
    scale_out_bytes_per_s: report
    {latency_source}
    reserve_bytes: assumed
sources:
  - title: "report: SGLang team, Deploying DeepSeek on H20, 2025-09"
    url: https://lmsys.org/blog/2025-09-26-sglang-ant-group/
  - title: "assumed: chosen so that the paper's figures come out"
"""

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Call:
    """Run the command line in a folder with a model and cards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("deepseek.json").write_text(json.dumps(DEEPSEEK))
    Path("sparse.json").write_text(json.dumps(SPARSE))
    timed = {
        "latency": "scale_out_latency_s: 1.67e-5",
        "latency_source": "scale_out_latency_s: assumed",
    }
    for name, filled in (("h20.yaml", dict.fromkeys(timed, "")), ("timed.yaml", timed)):
        lines = CARD.format(**filled).splitlines()
        Path(name).write_text("\n".join(line for line in lines if line.strip()) + "\n")

    def run(*argv: object) -> tuple[int, str, str]:
        code = cli.main([str(arg) for arg in argv])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def floor_of(call: Call, batch: int, layout: str, *more: object, **named: str) -> dict[str, Any]:
    """Return the document of `fvec floor`."""
    asked = {"model": "deepseek.json", "hardware": "h20.yaml", "precision": ALL_FP8} | named
    options = [text for name, value in asked.items() for text in (f"--{name}", value)]
    code, out, err = call(
        "floor", *options, "--layout", layout, "--batch", batch, "--context", 8192, "--json", *more
    )
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def walls_of(call: Call, layouts: str, **named: str) -> dict[str, Any]:
    """Return the document of `fvec walls`."""
    asked = {"model": "deepseek.json", "hardware": "h20.yaml:16", "precision": ALL_FP8} | named
    options = [text for name, value in asked.items() for text in (f"--{name}", value)]
    code, out, err = call("walls", *options, "--layouts", layouts, "--context", 8192, "--json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def wall(found: dict[str, Any], layout: int, resource: str) -> dict[str, Any]:
    rows = [row for row in found["layouts"][layout]["walls"] if row["resource"] == resource]
    (row,) = rows
    return row


def test_the_case_study_comes_out_of_the_command_line(call: Call) -> None:
    found = walls_of(call, "tp16,ep16+dp")
    assert [one["name"] for one in found["layouts"]] == ["tp16", "ep16+dp16"]
    assert wall(found, 0, "kv_capacity")["requests"] == pytest.approx(70, abs=1)
    assert wall(found, 0, "kv_bandwidth")["requests"] == pytest.approx(64, abs=1)
    assert wall(found, 0, "compute")["requests"] is None
    assert wall(found, 1, "compute")["requests"] == pytest.approx(224, abs=8)
    crossing = {c["metric"]: c for c in found["crossovers"]}["hbm"]
    assert crossing["requests"] == pytest.approx(30, abs=1)
    assert crossing["faster"] == "ep16+dp16"


def test_sparse_attention_takes_the_bandwidth_wall_and_leaves_that_of_capacity(call: Call) -> None:
    found = walls_of(call, "tp16,ep16+dp", model="sparse.json")
    assert not wall(found, 0, "kv_bandwidth")["within_capacity"]
    assert found["layouts"][0]["first"] == "kv_capacity"
    # The keys of the indexer count here; the paper's 644 leaves them out.
    assert wall(found, 1, "kv_capacity")["requests"] == pytest.approx(577, abs=2)


def test_a_single_stream_is_2_4_times_faster_with_the_latency_of_the_card(call: Call) -> None:
    ways = [floor_of(call, 1, layout, hardware="timed.yaml") for layout in ("ep16+dp", "tp16")]
    assert ways[0]["t_opt_s"] / ways[1]["t_opt_s"] == pytest.approx(2.4, abs=0.05)
    without = [floor_of(call, 1, layout)["resources"]["hbm_s"] for layout in ("ep16+dp", "tp16")]
    assert without[0] / without[1] > 4.6


def test_links_are_told_apart_and_the_busiest_of_them_sets_the_floor(call: Call) -> None:
    """A single stream of TP16: 122 sums, each with a message of 16.7 us between the nodes, 2.04 ms; the bytes on
    the node, 2 x 7/8 of 14,336 in each, take 6.8 us of another link meanwhile.
    """
    found = floor_of(call, 1, "tp16", hardware="timed.yaml")
    assert found["links"] == {
        "scale_up": pytest.approx(122 * 2 * 7 / 8 * 14336 / 450e9),
        "scale_out": pytest.approx(122 * (16.7e-6 + 2 * 1 / 2 * 14336 / 8 / 25e9)),
    }
    assert found["binding"] == "network"
    assert found["t_opt_s"] == pytest.approx(found["links"]["scale_out"])
    assert found["resources"]["network_s"] == pytest.approx(sum(found["links"].values()))
    assert found["t_sum_s"] == pytest.approx(sum(found["resources"].values()))


def test_a_prompt_is_read_with_the_logits_of_its_last_token(call: Call) -> None:
    """16 tokens of 2 sequences, a head of 7,168 x 129,280 over 16 devices: 15 of 16 need no logits."""
    found = [floor_of(call, 2, "tp16", option, 16) for option in ("--new-tokens", "--prefill")]
    assert [one["logits"] for one in found] == [16, 1]
    saved = found[0]["flops"]["fp8"] - found[1]["flops"]["fp8"]
    assert saved == pytest.approx(2 * 15 * 2 * 7168 * 129280 / 16)
    code, out, _ = call(
        "floor", "--model", "deepseek.json", "--hardware", "h20.yaml", "--precision", ALL_FP8,
        "--layout", "tp16", "--batch", "2", "--context", "1", "--prefill", "16",
    )  # fmt: skip
    assert code == 0
    assert "16 tokens of a prompt each" in out
    assert "network, scale out" in out


def test_the_document_has_the_keys_of_the_contract(call: Call) -> None:
    found = floor_of(call, 64, "tp16", "--measured", "21.4ms")
    assert found["schema"] == "fvec.floor/1"
    assert found["params"] == pytest.approx(671e9, rel=1e-3)
    assert found["ridge"] == {"bf16": pytest.approx(37.0), "fp8": pytest.approx(74.0)}
    assert found["weights_bytes_per_gpu"] == pytest.approx(41.9e9, rel=0.01)
    assert found["kv_bytes_per_token"] == 61 * 576 * 2
    assert found["capacity_requests"] == pytest.approx(69.5, abs=0.5)
    assert found["fits"] is True
    assert set(found["resources"]) == {"hbm_s", "compute_s", "network_s"}
    assert found["t_opt_s"] == pytest.approx(max(found["resources"].values()))
    assert found["t_sum_s"] == pytest.approx(sum(found["resources"].values()))
    for resource, seconds in found["resources"].items():
        assert sum(part[resource] for part in found["parts"]) == pytest.approx(seconds)
    assert found["mbu"] == pytest.approx(found["resources"]["hbm_s"] / 0.0214)
    assert found["mfu"] == pytest.approx(found["resources"]["compute_s"] / 0.0214)
    assert found["decision"]["action"] == "stop"
    assert found["decision"]["residual"] == pytest.approx(0.0214 / found["t_opt_s"])
    assert {"input", "range", "flips"} <= set(found["sensitivity"][0])


def test_without_a_measurement_nothing_is_said_of_one(call: Call) -> None:
    found = floor_of(call, 64, "tp16")
    assert [found[name] for name in ("measured_s", "mfu", "mbu", "decision", "service")] == [
        None
    ] * 5


def test_what_is_shown_names_resources_modules_and_the_next_step(call: Call) -> None:
    code, out, _ = call(
        "floor", "--model", "deepseek.json", "--hardware", "h20.yaml", "--precision", ALL_FP8,
        "--layout", "tp16", "--batch", "64", "--context", "8192", "--measured", "60ms",
        "--slo", "50ms", "--p99", "80ms",
    )  # fmt: skip
    assert code == 0
    for said in ("t_opt 18.3 ms", "HBM", "compute", "network", "attention", "room for 69.6"):
        assert said in out
    assert "open Nsight Systems" in out
    assert "SLO missed: P99 is 80 ms, the SLO 50 ms" in out


def test_a_timeline_leads_past_the_kernel_profiler_or_to_one_module(call: Call) -> None:
    gaps = floor_of(call, 64, "tp16", "--measured", "60ms", "--gaps", "30ms")["decision"]
    assert gaps["action"] == "repair"
    parts = [part["name"] for part in floor_of(call, 64, "tp16")["parts"]]
    slow = floor_of(call, 64, "tp16", "--measured", "60ms", "--kernels", f"{parts[1]}=50ms")
    assert slow["decision"]["action"] == "nsight_compute"
    assert parts[1] in slow["decision"]["reason"]


def test_more_sequences_than_there_is_room_for_are_said_not_to_fit(call: Call) -> None:
    assert floor_of(call, 128, "tp16")["fits"] is False
    _, out, _ = call(
        "floor", "--model", "deepseek.json", "--hardware", "h20.yaml", "--precision", ALL_FP8,
        "--layout", "tp16", "--batch", "128", "--context", "8192",
    )  # fmt: skip
    assert "128 sequences do not fit" in out


def test_drafts_cost_a_pass_of_their_layers_each_and_their_weights_once(call: Call) -> None:
    Path("drafting.json").write_text(json.dumps(DEEPSEEK | {"num_nextn_predict_layers": 1}))
    none, one, three = (
        floor_of(call, 64, "tp16", *more, model="drafting.json")
        for more in ((), ("--drafts", 1), ("--drafts", 3))
    )
    assert [found["new_tokens"] for found in (none, one, three)] == [1, 2, 4]
    assert none["weights_bytes_per_gpu"] < one["weights_bytes_per_gpu"]
    assert one["weights_bytes_per_gpu"] == three["weights_bytes_per_gpu"]
    own = {part["name"] for part in none["parts"]}
    passes = [
        sum(part["hbm_s"] for part in found["parts"] if part["name"] not in own)
        for found in (one, three)
    ]
    assert passes[1] == pytest.approx(3 * passes[0])
    assert passes[0] > 0


THRESHOLDS = """\
schema: fvec.card/1
kind: hardware
id: stop-thresholds
title: Thresholds of a test
facts:
  gemm:
    fp8 hopper: {entry}
  mla_decode:
    bfloat16 hopper: 3.00 1e-05
  experts:
    fp8 hopper: 1.50 2e-05
sources:
  - title: a test
    url: https://example.invalid/
"""


def test_measured_thresholds_decide_where_there_are_any_and_the_paper_s_is_compared(
    call: Call,
) -> None:
    Path("cards").mkdir()
    Path("cards/stop-thresholds.yaml").write_text(THRESHOLDS.format(entry="1.20 5e-06"))
    common = ("--cards", "cards", "--measured", "30ms")
    found = floor_of(call, 64, "tp16", *common, hardware="h20")
    assert 1.5 < found["decision"]["threshold"] < 3
    # 58 layers of experts, 61 of attention, 3 dense ones and the head
    fixed = 58 * (20e-6 + 5e-6) + 61 * (10e-6 + 3 * 5e-6) + 3 * 2 * 5e-6 + 5e-6
    assert found["decision"]["threshold_fixed_s"] == pytest.approx(fixed)
    assert found["decision"]["action"] == "stop"
    assert found["flat_decision"]["action"] == "nsight_systems"
    assert found["flat_decision"]["threshold"] == 1.3
    forced = floor_of(call, 64, "tp16", *common, "--threshold", "1.3", hardware="h20")
    assert forced["decision"]["action"] == "nsight_systems"
    unknown = floor_of(call, 64, "tp16", *common)  # a card of no family
    assert unknown["decision"] == unknown["flat_decision"]


@pytest.mark.parametrize("entry", ["fast", "0.90 0", "1.2", "1.2 -3e-06"])
def test_a_threshold_that_is_none_is_refused_with_its_place(call: Call, entry: str) -> None:
    Path("cards").mkdir()
    Path("cards/stop-thresholds.yaml").write_text(THRESHOLDS.format(entry=f"'{entry}'"))
    code, _, err = call(
        "floor", "--model", "deepseek.json", "--hardware", "h20", "--cards", "cards",
        "--layout", "tp16", "--batch", "64", "--context", "8192",
    )  # fmt: skip
    assert code == 3
    assert "cards/stop-thresholds.yaml" in err
    assert "gemm.fp8 hopper" in err


def test_a_packaged_card_is_enough(call: Call) -> None:
    assert floor_of(call, 64, "tp16", hardware="h20")["hardware"] == "nvidia-h20"


BENCH = {
    "model_id": "deepseek",
    "tokenizer_id": "deepseek",
    "request_rate": 5.0,
    "duration": 100.0,
    "completed": 2000,
    "failed": 0,
    "total_input_tokens": 15_384_000,
    "total_output_tokens": 2_000_000,
    "mean_tpot_ms": 3.2,
    "median_tpot_ms": 3.1,
    "p99_tpot_ms": 5.0,
}


def test_step_and_times_come_from_a_file_of_results(call: Call) -> None:
    Path("bench.json").write_text(json.dumps(BENCH))
    common = (
        "floor", "--model", "deepseek.json", "--hardware", "h20.yaml", "--precision", ALL_FP8,
        "--layout", "tp16", "--from", "bench.json", "--json",
    )  # fmt: skip
    code, out, _ = call(*common, "--slo", "30ms")
    assert code == 0
    found = json.loads(out)
    assert found["batch"] == pytest.approx(2000 * 999 * 3.2e-3 / 100)
    assert found["context"] == 15_384_000 / 2000 + 500
    assert found["measured_s"] == 3.1e-3
    assert found["decision"]["action"] == "suspect"
    assert found["service"]["verdict"] == "held"
    assert found["results"]["how"]
    mine = json.loads(call(*common, "--batch", "32", "--measured", "30ms")[1])
    assert (mine["batch"], mine["measured_s"]) == (32, 0.03)


def test_a_closed_loop_shows_no_slo_and_is_doubted(call: Call) -> None:
    closed = BENCH | {"request_rate": "inf", "max_concurrency": 64}
    Path("bench.json").write_text(json.dumps(closed))
    found = floor_of(call, 64, "tp16", "--from", "bench.json", "--slo", "30ms")
    assert found["service"]["verdict"] == "not shown"
    assert any("closed loop" in line for line in found["results"]["doubts"])


def test_the_walls_are_shown_as_tables(call: Call) -> None:
    code, out, _ = call(
        "walls", "--model", "deepseek.json", "--hardware", "h20.yaml:16", "--precision", ALL_FP8,
        "--layouts", "tp16,ep16+dp", "--context", "8192",
    )  # fmt: skip
    assert code == 0
    row = next(line for line in out.splitlines() if line.startswith("tp16 "))
    assert re.split(r"\s{2,}", row) == [
        "tp16", "69.6", "64", "from the first", "out of reach", "out of reach", "KV bandwidth",
    ]  # fmt: skip
    assert "29: ep16+dp16" in out
    assert "best by t_sum" in out


def test_smaller_layouts_fill_the_devices_as_replicas(call: Call) -> None:
    found = walls_of(call, "tp8+pp2", hardware="h20.yaml:32")
    assert found["devices"] == 32
    assert found["layouts"][0]["replicas"] == 2


@pytest.mark.parametrize("name", ["walls.svg", "walls.png"])
def test_the_plot_is_a_file_of_the_kind_its_name_says(call: Call, name: str) -> None:
    code, _, _ = call(
        "walls", "--model", "deepseek.json", "--hardware", "h20.yaml:16", "--precision", ALL_FP8,
        "--layouts", "tp16,ep16+dp", "--context", "8192", "--plot", name,
    )  # fmt: skip
    assert code == 0
    content = Path(name).read_bytes()
    if name.endswith(".png"):
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
        return
    said = texts(content.decode())
    for text in (
        "tp16",
        "ep16+dp16",
        "KV bandwidth binds",
        "compute binds",
        "tokens/s of one user",
    ):
        assert text in said
    assert "network binds" not in said  # it does not, without a latency


REFUSED = {
    "a layout that is none": ({"--layout": "tp16+sp2"}, 2, "not tpN, epN, dpN or ppN"),
    "experts over more devices than there are": ({"--layout": "tp4+ep16"}, 2, "add dp, or raise tp"),
    "a batch of none": ({"--batch": "0"}, 2, "whole number from 1"),
    "a time without a unit": ({"--measured": "21.4"}, 2, "write 21.4ms"),
    "a time of nothing": ({"--measured": "0ms"}, 2, "is not a time"),
    "a format that is none": ({"--precision": "cache=fp7"}, 2, "'fp7' is not one of fp32"),
    "a part that has no format": ({"--precision": "kv=fp8"}, 2, "'kv' is not one of weights"),
    "a percentile below the median": (
        {"--measured": "20ms", "--p99": "19ms", "--slo": "30ms"}, 2, "below --measured",
    ),
    "a percentile that nothing holds it to": ({"--p99": "19ms"}, 2, "--slo"),
    "drafts of a model without draft layers": ({"--drafts": "2"}, 3, "--new-tokens"),
    "drafts and new tokens": ({"--drafts": "2", "--new-tokens": "3"}, 2, "not allowed with"),
    "no step at all": ({"--batch": None}, 2, "--batch and --context say which step"),
    "a prompt and drafts": ({"--prefill": "9", "--drafts": "2"}, 2, "not allowed with"),
    "a prompt of results that decode": ({"--prefill": "9", "--from": "x.json"}, 2, "reads prompts"),
    "a run of no file": ({"--run": "2"}, 2, "--from"),
    "a file of results that is not there": ({"--from": "none.json"}, 3, "none.json"),
    "a timeline of nothing measured": ({"--gaps": "1ms"}, 2, "--measured"),
    "a threshold below the floor": ({"--threshold": "0.9"}, 2, "at least 1"),
    "a card that is not there": ({"--hardware": "h2000"}, 3, "hint:"),
    "a model that is not there": ({"--model": "none.json"}, 3, "config.json"),
    "a model that is no JSON": ({"--model": "h20.yaml"}, 3, "h20.yaml:1:1: not JSON"),
    "a module that the model lacks": (
        {"--measured": "60ms", "--kernels": "mixer=3ms"}, 3, "the modules of",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_is_said_with_what_would_be_right(call: Call, what: str) -> None:
    changed, expected, said = REFUSED[what]
    options = {
        "--model": "deepseek.json", "--hardware": "h20.yaml", "--layout": "tp16", "--batch": "64",
        "--context": "8192",
    } | changed  # fmt: skip
    given = [text for name, value in options.items() if value for text in (name, value)]
    code, out, err = call("floor", *given)
    assert (code, out) == (expected, "")
    assert said in err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[1]", "not a JSON object"),
        ('{"hidden_size": NaN}', "NaN is no number"),
        ("[" * 100_000, "not JSON"),
        (" " * (1 << 23) + "{}", "not a config"),
        (
            json.dumps(DEEPSEEK | {"model_type": "nonesuch", "architectures": ["Nonesuch"]}),
            "onesuch",
        ),
        (json.dumps(DEEPSEEK | {"hidden_size": "wide"}), "hidden_size"),
    ],
    ids=["a list", "NaN", "nested", "large", "unknown", "mistyped"],
)
def test_a_hostile_or_unknown_config_is_refused_with_its_place(
    call: Call, content: str, said: str
) -> None:
    Path("hostile.json").write_text(content)
    code, _, err = call(
        "floor", "--model", "hostile.json", "--hardware", "h20.yaml", "--layout", "tp16",
        "--batch", "64", "--context", "8192",
    )  # fmt: skip
    assert code == 3
    assert "hostile.json" in err
    assert said in err


@pytest.mark.parametrize(
    ("layouts", "hardware", "said"),
    [
        ("tp16,tp12", "h20.yaml:16", "tp12 takes 12 devices, which do not fill 16"),
        ("tp16,tp8", "h20.yaml:8", "tp16 takes 16 devices"),
        ("tp16,tp12", "h20.yaml", "say how many there are"),
        ("tp16,tp16", "h20.yaml:16", "each once"),
        ("tp16", "h20.yaml:0", "do not fill 0"),
    ],
)
def test_layouts_fill_the_devices(call: Call, layouts: str, hardware: str, said: str) -> None:
    code, _, err = call(
        "walls", "--model", "deepseek.json", "--hardware", hardware, "--layouts", layouts,
        "--context", "8192",
    )  # fmt: skip
    assert code == 2
    assert said in err


def test_a_plot_is_svg_or_png_and_goes_where_it_can(call: Call) -> None:
    common = (
        "walls", "--model", "deepseek.json", "--hardware", "h20.yaml:16", "--precision", ALL_FP8,
        "--context", "8192", "--layouts",
    )  # fmt: skip
    assert call(*common, "tp16", "--plot", "walls.pdf")[0] == 2
    code, _, err = call(*common, "tp16", "--plot", "nowhere/walls.svg")
    assert code == 3
    assert "nowhere/walls.svg" in err
    code, _, err = call(*common, "tp4", "--plot", "walls.svg")
    assert code == 3
    assert "no layout has room for one sequence" in err
    assert call(*common, "tp4,tp16", "--plot", "walls.svg")[0] == 0

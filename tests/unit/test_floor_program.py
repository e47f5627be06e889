"""Floors as one file: built, then run by a Python that has nothing but its standard library."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, get_args
from zipfile import ZipFile

import pytest

from layers import hardware_cards
from layers.floor import configs
from layers.floor.floors import floor
from layers.floor.layout import Layout
from layers.floor.modules import Place, Step
from layers.floor.triage import Action

ROOT = Path(__file__).parents[2]
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "hidden_act": "silu",
}
ASKED = "--layout tp1 --batch 32 --context 2048"

Run = Callable[..., subprocess.CompletedProcess[str]]


def builder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_floor", ROOT / "scripts/build_floor.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("artifact")
    builder().build(made)
    (made / "config.json").write_text(json.dumps(LLAMA))
    return made


@pytest.fixture
def run(folder: Path) -> Run:
    def run(arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-I", "-S", "floor.pyz", *shlex.split(arguments)]
        return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=120)

    return run


def test_the_archive_holds_the_program_alone_and_lies_beside_the_skill(folder: Path) -> None:
    names = ZipFile(folder / "floor.pyz").namelist()
    tops = {
        name.split("/")[1] for name in names if name.startswith("layers/") and name.count("/") > 1
    }
    assert tops == {"floor", "floor_program"}
    assert (folder / "SKILL.md").read_text().startswith("---\nname: floor-first\n")


def test_it_says_the_same_floor_as_the_library(run: Run) -> None:
    done = run(f"--model config.json --hardware h100-sxm {ASKED} --json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    model, precision = configs.read(LLAMA)
    place = Place(Layout.parse("tp1"), hardware_cards.read("h100-sxm"), precision)
    found = floor(model, Step(32.0, 2048.0), place)
    assert said["t_opt_s"] == pytest.approx(found.times.t_opt_s, rel=1e-12)
    assert said["t_sum_s"] == pytest.approx(found.times.t_sum_s, rel=1e-12)
    assert said["binding"] == "hbm"


def test_a_measurement_is_placed_and_a_profile_explains_it(run: Run) -> None:
    asked = f"--model config.json --hardware h100-sxm {ASKED} --measured 40ms"
    first = run(asked).stdout
    assert "nsight_systems: " in first
    assert "gaps between kernels" in first
    after = run(f"{asked} --gaps 30ms").stdout
    assert "repair: " in after
    assert "CUDA graph" in after


def test_a_kernel_over_its_budget_is_named_and_an_unknown_module_refused(run: Run) -> None:
    asked = f"--model config.json --hardware h100-sxm {ASKED} --measured 40ms"
    only_gaps = run(f"{asked} --gaps 1ms").stdout
    assert "nsight_systems: " in only_gaps
    assert "one question is left" in only_gaps
    slow = run(f"{asked} --gaps 1ms --kernels attention=30ms --kernels head=100us")
    assert slow.returncode == 0, slow.stderr
    assert "nsight_compute: gaps and communication excluded; attention takes 30 ms" in slow.stdout
    wrong = run(f"{asked} --kernels mixer=3ms")
    assert (wrong.returncode, "mixer: not among embedding, attention" in wrong.stderr) == (3, True)


def test_a_prompt_has_logits_of_its_last_token_alone(run: Run) -> None:
    """8 billion parameters and 2,048 tokens: the head is 1.05 billion multiply-adds a token, for one of them."""
    asked = "--model config.json --hardware h100-sxm --layout tp1 --batch 1 --context 1 --json"
    found = [
        json.loads(run(f"{asked} {option} 2048").stdout) for option in ("--new-tokens", "--prefill")
    ]
    logits = 2047 * 2 * 4096 * 128256 / hardware_cards.read("h100-sxm").peak("bf16")
    saved = found[0]["resources"]["compute_s"] - found[1]["resources"]["compute_s"]
    assert saved == pytest.approx(logits)
    assert [any("--prefill" in line for line in one["assumptions"]) for one in found] == [
        True,
        False,
    ]


def test_the_document_says_whether_an_slo_is_kept_and_what_the_answers_hang_on(run: Run) -> None:
    asked = f"--model config.json --hardware h100-sxm {ASKED} --json"
    said = json.loads(run(f"{asked} --slo 5ms").stdout)
    assert said["service"]["verdict"] == "out of reach"
    assert {one["input"] for one in said["sensitivity"]} == {"reserve", "HBM bandwidth", "context"}
    assert json.loads(run(asked).stdout)["service"] is None
    asked = "--model config.json --hardware h100-sxm --layouts tp8 --context 8192 --json"
    assert any("reserve" in line for line in json.loads(run(asked).stdout)["assumptions"])


def test_every_action_that_the_skill_names_can_come_out_of_the_program(folder: Path) -> None:
    text = (folder / "SKILL.md").read_text()
    actions = set(re.findall(r"^   \| ([a-z_]+) \|", text, re.MULTILINE))
    assert actions == set(get_args(Action))
    assert all(option in text for option in ("--gaps", "--exposed", "--kernels"))


def test_walls_of_layouts_are_told_in_their_order(run: Run) -> None:
    asked = "--model config.json --hardware h100-sxm --devices 8 --layouts tp8,tp1 --context 8192"
    done = run(asked)
    assert done.returncode == 0, done.stderr
    assert "tp8: starts bound by " in done.stdout
    assert {one["name"] for one in json.loads(run(f"{asked} --json").stdout)["layouts"]} == {
        "tp8",
        "tp1",
    }


def own_card(folder: Path, name: str, **facts: object) -> str:
    constants: dict[str, object] = {
        "memory_bytes": 80e9,
        "hbm_bytes_per_s": 3.35e12,
        "bf16_flops_per_s": 989e12,
        **facts,
    }
    kept = {key: value for key, value in constants.items() if value is not None}
    source_of = dict.fromkeys(kept, "maker") if "source_of" not in kept else kept.pop("source_of")
    card = {"id": "own", "facts": {**kept, "source_of": source_of}, "sources": []}
    (folder / name).write_text(json.dumps(card))
    return name


def test_a_card_of_ones_own_is_a_json_file(run: Run, folder: Path) -> None:
    name = own_card(folder, "own.json")
    done = run(f"--model config.json --hardware {name} {ASKED} --json")
    assert json.loads(done.stdout)["hardware"] == "own"


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"source_of": {"memory_bytes": "maker"}}, "does not name the source of bf16_flops_per_s"),
        ({"hbm_bytes_per_s": "fast"}, "hbm_bytes_per_s is 'fast', not a number above 0"),
        ({"hbm_bytes_per_s": None}, "hbm_bytes_per_s is missing"),
        ({"bf16_flops_per_s": None}, "no peak"),
        ({"bandwidth": 3e12}, "bandwidth: not among"),
    ],
)
def test_a_wrong_card_is_refused(run: Run, folder: Path, facts: dict[str, Any], says: str) -> None:
    done = run(f"--model config.json --hardware {own_card(folder, 'wrong.json', **facts)} {ASKED}")
    assert done.returncode == 3
    assert says in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (f"--model config.json --hardware h100 {ASKED}", 3, "did you mean nvidia-h100-pcie"),
        (f"--model none.json --hardware h20 {ASKED}", 3, "No such file"),
        (f"--model wrong.json --hardware h20 {ASKED}", 3, "not JSON"),
        (f"--model odd.json --hardware h20 {ASKED}", 3, "odd.json: "),
        ("--model config.json --hardware h20 --layout tp1 --batch 1", 2, "--context is missing"),
        (f"--model config.json --hardware h20 {ASKED} --gaps 1ms", 2, "explain a --measured"),
        (
            f"--model config.json --hardware h20 {ASKED} --kernels head=1ms",
            2,
            "explain a --measured",
        ),
        (f"--model config.json --hardware h20 {ASKED} --kernels 1ms", 2, "is not MODULE=TIME"),
        (f"--model config.json --hardware h20 {ASKED} --p99 9ms", 2, "--p99 is held to an --slo"),
        (
            f"--model config.json --hardware h20 {ASKED} --prefill 9 --new-tokens 9",
            2,
            "not allowed",
        ),
        (f"--model config.json --hardware h20 {ASKED} --measured 3", 2, "is not a time"),
        (f"--model config.json --hardware h20 {ASKED} --precision cache=fp9", 2, "fp9"),
        (f"--model config.json --hardware l4 {ASKED.replace('tp1', 'tp3+ep7')}", 2, "ep7"),
    ],
)
def test_what_is_wrong_is_said_with_the_code_of_its_kind(
    run: Run, folder: Path, arguments: str, code: int, says: str
) -> None:
    (folder / "wrong.json").write_text("{")
    (folder / "odd.json").write_text(json.dumps({"model_type": "abacus"}))
    done = run(arguments)
    assert (done.returncode, says in done.stderr) == (code, True), done.stderr
    assert "Traceback" not in done.stderr


def test_every_example_of_the_skill_prints_what_it_says(run: Run, folder: Path) -> None:
    text = (folder / "SKILL.md").read_text()
    examples = re.findall(r"\$ python floor\.pyz (.+)\n((?:(?!\$|```).+\n)*)", text)
    assert len(examples) >= 2, text
    for arguments, printed in examples:
        done = run(arguments)
        assert done.returncode == 0, done.stderr
        for line in printed.splitlines():
            assert line in done.stdout.splitlines(), f"{arguments}: {line}\n{done.stdout}"

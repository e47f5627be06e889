"""Quantisation configs: which matrices are in which format, and what a model then takes in memory."""

from __future__ import annotations

from typing import Any

import pytest

from layers.floor.configs import ConfigError, read
from layers.floor.configs.quantised import Names, Numbers
from layers.floor.floors import floor
from layers.floor.hardware import Hardware
from layers.floor.layout import Layout
from layers.floor.model import Model, Part
from layers.floor.modules import GatedMLP, Place, Step
from layers.floor.precision import Mix, Precision, by_dtype, bytes_of

BF16 = Numbers("bf16", "bf16")
PEAKS = {"fp4": 4e15, "fp8": 2e15, "bf16": 1e15}
DEVICE = Hardware("device", 1e15, 1e12, PEAKS)
TABLE, QKV, OUT, FEED, EXPERT, ROUTER = 64_000, 12_288, 8_192, 18_432, 3 * 64 * 24, 8 * 64
DENSE = {
    "model_type": "qwen3",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 96,
    "vocab_size": 1000,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
SPARSE = {
    **DENSE,
    "model_type": "qwen3_moe",
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
}
NVFP4_GROUP = {
    "weights": {"num_bits": 4, "type": "float", "group_size": 16},
    "input_activations": {"num_bits": 4, "type": "float", "group_size": 16},
    "targets": ["Linear"],
}


def kept_bytes(config: dict[str, Any], quantised: Any = None) -> float:
    """Return what the weights take on one device."""
    model, precision = read(config, quantised)
    place = Place(Layout(), DEVICE, precision)
    return float(floor(model, Step(1.0, 16.0), place).whole.resident_bytes)


def dense_bytes(attention: float, feed: float, out: float | None = None) -> float:
    """Return the same for DENSE by hand, from bytes an element."""
    layer = QKV * attention + OUT * (attention if out is None else out) + FEED * feed
    return 2 * TABLE * 2.0 + 2 * layer


@pytest.mark.parametrize(
    ("quantised", "attention", "feed"),
    [
        (None, 2.0, 2.0),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 1 + 4 / 128**2, 1 + 4 / 128**2),
        ({"quant_method": "fp8", "activation_scheme": "static"}, 1.0, 1.0),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 0.5 + 2 / 128, 0.5 + 2 / 128),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, 0.5 + 2 / 64, 0.5 + 2 / 64),
        ({"quant_method": "gptq", "bits": 8, "group_size": 32}, 1 + 2 / 32, 1 + 2 / 32),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, 0.5, 0.5),
        ({"quant_algo": "NVFP4", "quant_method": "modelopt"}, 0.5625, 0.5625),
        ({"quant_algo": "MXFP8"}, 1 + 1 / 32, 1 + 1 / 32),
        ({"quant_method": "fp8", "modules_to_not_convert": ["self_attn"]}, 2.0, 1.0),
        ({"quant_algo": "FP8", "exclude_modules": ["model.layers.*.mlp*"]}, 1.0, 2.0),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": NVFP4_GROUP},
                "ignore": ["re:.*self_attn.*", "lm_head"],
            },
            2.0,
            0.5625,
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "a": {
                        "weights": {"num_bits": 8, "type": "float"},
                        "input_activations": {"num_bits": 8, "type": "float"},
                        "targets": ["re:.*self_attn.*"],
                    },
                    "b": {
                        "weights": {"num_bits": 4, "type": "int", "group_size": 32},
                        "targets": ["Linear"],
                    },
                },
            },
            1.0,
            0.5 + 2 / 32,
        ),
    ],
)
def test_matrices_take_what_their_format_says_and_tables_stay_in_16_bits(
    quantised: Any, attention: float, feed: float
) -> None:
    config = {**DENSE, "quantization_config": quantised}
    assert kept_bytes(config) == pytest.approx(dense_bytes(attention, feed))


@pytest.mark.parametrize(
    ("group", "stored", "math"),
    [
        (NVFP4_GROUP, "nvfp4", "fp4"),
        ({**NVFP4_GROUP, "input_activations": None}, "nvfp4", "bf16"),
        ({"weights": {"num_bits": 4, "type": "float", "group_size": 32}}, "mxfp4", "fp8"),
        ({"weights": {"num_bits": 8, "type": "float", "strategy": "block"}}, "fp8_block", "bf16"),
        (
            {
                "weights": {"num_bits": 8, "type": "int"},
                "input_activations": {"num_bits": 8, "type": "int"},
            },
            "int8",
            "int8",
        ),
        (
            {
                "weights": {"num_bits": 4, "type": "int", "group_size": 128},
                "input_activations": {"num_bits": 8, "type": "float"},
            },
            "int4/128",
            "fp8",
        ),
    ],
)
def test_a_group_says_how_weights_are_stored_and_with_what_they_are_multiplied(
    group: dict[str, Any], stored: str, math: str
) -> None:
    groups = {"absent": None, "group_0": group}
    quantised = {"quant_method": "compressed-tensors", "config_groups": groups}
    precision = read({**DENSE, "quantization_config": quantised})[1]
    assert (precision.weights, precision.math) == (stored, math)


def test_a_file_of_modelopt_beside_the_configuration_counts_where_that_has_none() -> None:
    beside = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    assert kept_bytes(DENSE, beside) == pytest.approx(dense_bytes(1.0, 1.0))
    assert read(DENSE, beside)[1].cache == "fp8"
    own = {**DENSE, "quantization_config": {"quant_algo": "NVFP4"}}
    assert kept_bytes(own, beside) == pytest.approx(dense_bytes(0.5625, 0.5625))
    assert read(own, beside)[1].cache == "fp8"


def test_one_matrix_of_a_module_may_be_in_another_format() -> None:
    excluded = [f"model.layers.{i}.self_attn.{name}_proj" for i in (0, 1) for name in "qkv"]
    quantised = {"quant_algo": "NVFP4", "exclude_modules": excluded}
    config = {**DENSE, "quantization_config": quantised}
    assert kept_bytes(config) == pytest.approx(dense_bytes(2.0, 0.5625, out=0.5625))
    attention = read(config)[0].parts[1]
    share = OUT / (QKV + OUT)
    assert dict(attention.differs)["math"] == Mix((("bf16", 1 - share), ("fp4", share)))


def test_a_layer_that_is_kept_apart_is_a_part_of_its_own() -> None:
    quantised = {"quant_algo": "FP8", "exclude_modules": ["model.layers.0.self_attn*"]}
    model = read({**DENSE, "quantization_config": quantised})[0]
    names = {part.name: (part.count, dict(part.differs).get("weights")) for part in model.parts}
    assert names["attention"] == (1, "bf16")
    assert names["attention 2"] == (1, None)


def test_mxfp4_of_gpt_oss_is_of_the_experts_alone() -> None:
    config = {
        **SPARSE,
        "model_type": "gpt_oss",
        "sliding_window": 8,
        "intermediate_size": 24,
        "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]},
    }
    del config["moe_intermediate_size"]
    layer = (QKV + OUT + ROUTER) * 2 + 8 * EXPERT * (0.5 + 1 / 32)
    assert kept_bytes(config) == pytest.approx(2 * TABLE * 2 + 2 * layer)
    assert read(config)[1].expert_math == "fp8"


@pytest.mark.parametrize(("layers", "experts", "gib"), [(24, 32, 12.8), (36, 128, 60.8)])
def test_gpt_oss_takes_what_its_model_card_says(layers: int, experts: int, gib: float) -> None:
    config = {
        "model_type": "gpt_oss",
        "hidden_size": 2880,
        "num_hidden_layers": layers,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "intermediate_size": 2880,
        "num_local_experts": experts,
        "num_experts_per_tok": 4,
        "sliding_window": 128,
        "vocab_size": 201_088,
        "torch_dtype": "bfloat16",
        "quantization_config": {"quant_method": "mxfp4"},
    }
    assert kept_bytes(config) == pytest.approx(gib * 2**30, rel=0.01)


def test_routers_stay_in_16_bits_and_experts_follow_the_first_of_a_layer() -> None:
    quantised = {
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {
            f"model.layers.{i}.mlp.experts.{j}.{name}_proj": {"quant_algo": "W4A16_NVFP4"}
            for i in (0, 1)
            for j in range(8)
            for name in ("up", "down", "gate")
        },
    }
    config = {**SPARSE, "quantization_config": quantised}
    layer = (QKV + OUT + ROUTER) * 2 + 8 * EXPERT * 0.5625
    assert kept_bytes(config) == pytest.approx(2 * TABLE * 2 + 2 * layer)
    precision = read(config)[1]
    assert (precision.experts, precision.expert_math, precision.weights) == (
        "nvfp4",
        "bf16",
        "bf16",
    )


def test_a_head_that_is_listed_by_name_is_quantised() -> None:
    quantised = {
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {"lm_head": {"quant_algo": "FP8"}},
    }
    found = kept_bytes({**DENSE, "quantization_config": quantised})
    assert found == pytest.approx(dense_bytes(2.0, 2.0) - TABLE)
    gptq = {"quant_method": "gptq", "bits": 8, "group_size": -1, "lm_head": True}
    found = kept_bytes({**DENSE, "quantization_config": gptq})
    assert found == pytest.approx(dense_bytes(1.0, 1.0) - TABLE)


def test_fp4_experts_of_deepseek_v4_lie_under_block_scaled_weights() -> None:
    config = {
        **SPARSE,
        "model_type": "mixtral",
        "intermediate_size": 24,
        "expert_dtype": "fp4",
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    }
    del config["moe_intermediate_size"]
    precision = read(config)[1]
    assert (precision.weights, precision.experts) == ("fp8_block", "mxfp4")
    with pytest.raises(ConfigError, match="expert_dtype: not declared without"):
        read({key: value for key, value in config.items() if key != "quantization_config"})


@pytest.mark.parametrize(
    ("stated", "cache", "math"),
    [
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, "fp8", "fp8"),
        ({"kv_cache_scheme": {"num_bits": 4, "type": "float"}}, "nvfp4", "bf16"),
        ({"kv_cache_scheme": "INT8"}, "int8", "bf16"),
        ({"kv_cache_quant_algo": "FP8"}, "fp8", "fp8"),
        ({"kv_cache_quant_algo": None}, "bf16", "bf16"),
    ],
)
def test_the_cache_is_in_the_format_that_is_stated(stated: Any, cache: str, math: str) -> None:
    precision = read({**DENSE, "quantization_config": {"quant_algo": "FP8", **stated}})[1]
    assert (precision.cache, precision.attention_math) == (cache, math)


def test_what_experts_multiply_is_the_least_that_is_sent_to_them() -> None:
    for algorithm, sent in (("FP8", "fp8"), ("NVFP4", "nvfp4"), ("W4A16_NVFP4", "bf16")):
        quantised = {"quant_algo": algorithm}
        assert read({**SPARSE, "quantization_config": quantised})[1].dispatched == sent


@pytest.mark.parametrize(
    ("quantised", "message"),
    [
        ({"quant_method": "quark"}, r"'quark' is not declared\n.*fp8.*modelopt"),
        ({"bits": 4}, "quant_method: '' is not declared"),
        ({"quant_algo": "FP7"}, r"quant_algo: 'FP7' is not declared\n.*NVFP4"),
        ({"quant_method": "fp8", "weight_block_size": [64, 64]}, "weight_block_size"),
        ({"quant_method": "gptq", "bits": 3, "group_size": 128}, "3 bits"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 0}, "in 0 are not declared"),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {"-:lm_head": {}}}, "dynamic"),
        ({"quant_method": "compressed-tensors"}, "config_groups is missing"),
        ({"quant_method": "compressed-tensors", "config_groups": {"a": {}}}, "weights is missing"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"a": {"weights": {"num_bits": 6, "type": "float"}}},
            },
            "'float' of 6 bits is not declared",
        ),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {},
                "sparsity_config": {"format": "dense"},
            },
            "sparsity_config",
        ),
        ({"quant_algo": "FP8", "exclude_modules": "lm_head"}, "exclude_modules: not a list"),
        ({"quant_algo": "FP8", "exclude_modules": [3]}, "'3' is no name of a module"),
        ({"quant_algo": "FP8", "kv_cache_quant_algo": ["FP8"]}, "kv_cache_quant_algo"),
        ({"quant_algo": "MIXED_PRECISION", "quantized_layers": []}, "not a mapping"),
        ({"quant_algo": ["FP8"]}, "quant_algo"),
    ],
)
def test_a_quantisation_that_is_not_declared_is_refused_with_its_key(
    quantised: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        read({**DENSE, "quantization_config": quantised})


@pytest.mark.parametrize(
    ("pattern", "name", "is_named"),
    [
        ("lm_head", "lm_head", True),
        ("gate", "model.layers.3.mlp.gate", True),
        ("gate", "model.layers.3.mlp.gate_proj", False),
        ("model.layers.1", "model.layers.1.mlp.up_proj", True),
        ("model.layers.1", "model.layers.10.mlp.up_proj", False),
        ("model.layers.1*", "model.layers.10.mlp.up_proj", True),
        ("model.layers.*.self_attn", "model.layers.7.self_attn.q_proj", True),
        ("*.attn.*", "layers.0.attn.wq_a", True),
        ("mtp*", "mtp.layers.0.mlp.up_proj", True),
        (r"re:.*mlp\.(gate|up|gate_up|down)_proj.*", "layers.1.mlp.up_proj", True),
        (r"re:.*mlp\.(gate|up|gate_up|down)_proj.*", "layers.1.mlp.experts.0.up_proj", False),
        (r"re:model\.layers\.\d+\.self_attn.*", "model.layers.12.self_attn.o_proj", True),
    ],
)
def test_a_module_is_named_by_whole_parts_wildcards_or_a_plain_regex(
    pattern: str, name: str, *, is_named: bool
) -> None:
    assert (name in Names([pattern], "ignore")) is is_named


@pytest.mark.parametrize(
    "pattern",
    ["re:(a+)+$", "re:(.*)*x", "re:.*.*.*.*.*x", r"re:(?=a)b", r"re:(a)\1", "re:a{9}", "re:["],
)
def test_a_regex_that_might_not_end_is_not_compiled(pattern: str) -> None:
    with pytest.raises(ConfigError, match="ignore: 're:"):
        Names([pattern], "ignore")


def test_many_patterns_and_long_names_are_refused() -> None:
    with pytest.raises(ConfigError, match="more than 64 patterns"):
        Names([f"*a{i}*" for i in range(33)], "ignore")
    with pytest.raises(ConfigError, match="no name of a module"):
        Names(["a" * 501], "ignore")


def test_a_mix_weighs_its_formats_by_their_shares() -> None:
    mix = Mix((("bf16", 0.25), ("fp8", 0.75)))
    assert bytes_of(mix) == 0.25 * 2 + 0.75
    assert by_dtype(mix, 8.0) == {"bf16": 2.0, "fp8": 6.0}
    assert by_dtype("fp8", 8.0) == {"fp8": 8.0}
    assert bytes_of("int4/32") == 0.5 + 2 / 32
    for unknown in ("int5", "int4/0", "int4/-1", "fp8/128", "int4/x"):
        with pytest.raises(KeyError, match="is not declared"):
            bytes_of(unknown)


def test_a_dtype_that_a_device_lacks_is_computed_in_the_next_wider_one() -> None:
    stored = Precision(
        math=Mix((("fp4", 0.5), ("bf16", 0.5))), expert_math="fp4", attention_math="fp8"
    )
    older = stored.on({"bf16"})
    assert older.math == Mix((("bf16", 0.5), ("bf16", 0.5)))
    assert (older.expert_math, older.attention_math, older.index_math) == ("bf16", "bf16", "bf16")
    newer = stored.on({"fp8", "bf16"})
    assert (newer.expert_math, newer.attention_math) == ("fp8", "fp8")
    assert stored.on({"fp32"}) == stored  # the card's own error names what it lacks

    step = Step(4.0, 16.0)
    part = Part("feed-forward", GatedMLP(64, 96), 3, (("math", "fp4"), ("weights", "nvfp4")))
    card = Hardware("older", 1e15, 1e12, {"fp8": 1e15, "bf16": 1e15})
    account = part.account(step, Place(Layout(), card, Precision()))
    assert account.flops == {"fp8": 3 * 2 * FEED * 4.0}
    assert account.hbm_bytes == pytest.approx(3 * FEED * 0.5625)
    assert Model("m", 64, [part]).draft_parameters() == 0

"""Read a Hugging Face configuration as a model of declared modules, and the precision that it is kept in.

Nothing is guessed: an architecture that is not declared, a key whose meaning is not declared and a
value that no module stands for are refused with what to declare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from layers.floor.configs import grouped, hybrid, latent, towers
from layers.floor.configs.assemble import Whole, assemble
from layers.floor.configs.keys import ConfigError, Keys
from layers.floor.configs.plan import Plan
from layers.floor.configs.quantised import MXFP4, Numbers, Scheme, scheme
from layers.floor.model import Model
from layers.floor.modules import (
    Attention,
    CompressedAttention,
    DeltaNet,
    LatentAttention,
    StateSpace,
    Tower,
)
from layers.floor.precision import Precision

__all__ = ["FAMILIES", "ConfigError", "Family", "read"]

DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "bf16"}
# What keeps something of a sequence from one step to the next.
KEEPING = (Attention, LatentAttention, CompressedAttention, StateSpace, DeltaNet)


@dataclass(frozen=True, slots=True)
class Family:
    """How a `model_type` is read; `tied` is what its class defaults to."""

    read: Callable[[Keys], Plan]
    tower: Callable[[Keys, int], Tower] | None = None
    tied: bool = False


FAMILIES: Mapping[str, Family] = {
    "llama": Family(grouped.dense),
    "mistral": Family(grouped.dense),
    "mistral3": Family(grouped.dense, towers.pixtral),
    "granite": Family(grouped.dense),
    "olmo": Family(grouped.dense),
    "olmo2": Family(grouped.dense),
    "phi3": Family(grouped.dense),
    "qwen2": Family(grouped.qwen),
    "qwen3": Family(grouped.qwen),
    "mimo": Family(grouped.qwen),
    "qwen2_5_vl": Family(grouped.qwen, towers.qwen2_5),
    "qwen2_moe": Family(grouped.qwen_experts),
    "qwen3_moe": Family(grouped.qwen_experts),
    "qwen3_vl": Family(grouped.qwen, towers.qwen),
    "qwen3_vl_moe": Family(grouped.qwen_experts, towers.qwen),
    "mixtral": Family(grouped.mixtral),
    "phimoe": Family(grouped.mixtral),
    "olmoe": Family(grouped.mixtral),
    "gpt_oss": Family(grouped.gpt_oss),
    "gemma": Family(grouped.gemma(0), tied=True),
    "gemma2": Family(grouped.gemma(2), tied=True),
    "gemma3_text": Family(grouped.gemma(6), tied=True),
    "gemma3": Family(grouped.gemma(6), towers.siglip, tied=True),
    "gemma4": Family(grouped.gemma4, towers.gemma4, tied=True),
    "llama4": Family(grouped.llama4, towers.llama4),
    "minimax_m2": Family(grouped.minimax_m2),
    "minimax_m3": Family(grouped.minimax_m3),
    "minimax_m3_vl": Family(grouped.minimax_m3, towers.minimax),
    "mimo_v2_flash": Family(grouped.mimo_v2),
    "step3p7": Family(grouped.step3),
    "glm4_moe": Family(grouped.glm4_moe),
    "nemotron-nas": Family(grouped.nemotron_nas),
    "deepseek_v2": Family(latent.deepseek),
    "deepseek_v3": Family(latent.deepseek),
    "deepseek_v32": Family(latent.deepseek),
    "kimi_k2": Family(latent.deepseek),
    "kimi_k25": Family(latent.deepseek, towers.kimi),
    "glm_moe_dsa": Family(latent.deepseek),
    "deepseek_v4": Family(latent.deepseek_v4),
    "deepseek_ref": Family(latent.deepseek_v4),
    "kimi_linear": Family(latent.kimi_linear),
    "kimi_k3": Family(latent.kimi_linear, towers.kimi),
    "qwen3_next": Family(hybrid.qwen_next),
    "qwen3_5": Family(hybrid.qwen_next, towers.qwen),
    "qwen3_5_moe": Family(hybrid.qwen_next, towers.qwen),
    "nemotron_h": Family(hybrid.nemotron_h),
    "falcon_h1": Family(hybrid.falcon_h1),
    "mamba2": Family(hybrid.mamba2),
}


def read(
    config: object, quantisation: object = None, *, name: str = "model"
) -> tuple[Model, Precision]:
    """Return the model that a `config.json` describes and the precision of its checkpoint.

    `config` is the file's mapping; `quantisation` that of `hf_quant_config.json`, which counts where
    the configuration has no `quantization_config`, or none for the cache. Raises ConfigError with
    the key and what to declare.
    """
    whole = Keys(config)
    family = _family(whole)
    text = whole.section("text_config") or whole
    whole.refuse("audio_config")
    hidden = text.count("hidden_size")
    assumptions: list[str] = []
    formats = _scheme(whole, text, quantisation, assumptions)
    text.refuse("add_cross_attention", "is_encoder_decoder", unless=False)
    stated = Whole(
        name,
        hidden,
        text.count("vocab_size"),
        _tied(whole, text, family),
        _towers(whole, family, hidden, assumptions),
        assumptions,
    )
    plan = family.read(text)
    for keys in {id(keys): keys for keys in (text, whole)}.values():
        keys.finish()
    if not any(isinstance(module, KEEPING) for layer in plan.layers for module in layer):
        raise ConfigError(
            "no layer keeps a cache or a state",
            "a model that forgets has no decode step to account",
        )
    return assemble(stated, plan, formats)


def _tied(whole: Keys, text: Keys, family: Family) -> bool:
    """Return whether the head is the embedding's table, as the outer or the inner mapping says."""
    name = "tie_word_embeddings"
    stated = {keys.flag(name) for keys in (whole, text) if keys.has(name)}
    if len(stated) > 1:
        raise ConfigError(f"{whole.at(name)} and {text.at(name)} disagree")
    return stated.pop() if stated else family.tied


def _family(whole: Keys) -> Family:
    kind = whole.text("model_type")
    if kind in FAMILIES:
        return FAMILIES[kind]
    inner = FAMILIES.get(kind.removesuffix("_text"))  # the language model of a larger one, alone
    if inner is None:
        raise ConfigError(
            f"model_type: {kind[:60]!r} is not declared",
            f"declared: {', '.join(FAMILIES)}; declare another in layers/floor/configs",
        )
    return replace(inner, tower=None)


def _towers(whole: Keys, family: Family, hidden: int, assumptions: list[str]) -> list[Tower]:
    found = whole.section("vision_config")
    whole.pass_over("projector_hidden_size", "language_model_only")
    if found is None:
        if family.tower:
            assumptions.append("no vision_config: the encoder of images is not counted")
        return []
    if family.tower is None:
        raise ConfigError("vision_config: no encoder is declared for this architecture")
    tower = family.tower(found, hidden)
    found.finish()
    return [tower]


def _scheme(whole: Keys, text: Keys, quantisation: object, assumptions: list[str]) -> Scheme:
    """Return the formats of the checkpoint; 16 bits where no dtype is stated, which is said."""
    dtype = whole.any("dtype", "torch_dtype") or text.any("dtype", "torch_dtype")
    if dtype is None:
        assumptions.append("no dtype is stated: what is not quantised is taken as bfloat16")
    elif not isinstance(dtype, str) or dtype not in DTYPES:
        raise ConfigError(f"dtype: {str(dtype)[:40]!r} is not declared: {', '.join(DTYPES)}")
    elif dtype == "float32":
        assumptions.append("float32 is stated: engines serve it in 16 bits")
    stored = DTYPES[dtype] if isinstance(dtype, str) else "bf16"
    found = whole.any("quantization_config") or text.any("quantization_config")
    base = Numbers(stored, stored)
    aside = scheme(quantisation, base, "hf_quant_config.json")
    formats = aside
    if found is not None:
        formats = scheme(found, base)
        formats = replace(formats, cache=formats.cache or aside.cache)
    if text.any("expert_dtype") is None:
        return formats
    if text.text("expert_dtype") != "fp4" or formats.every is None:
        raise ConfigError(f"{text.at('expert_dtype')}: not declared without quantised weights")
    return replace(formats, experts=MXFP4)

"""The floor of each table's rows: see `benchmarks.silicon_rows` for what a row holds."""

from __future__ import annotations

import numpy as np

from benchmarks.silicon_routing import routed
from benchmarks.silicon_rows import Array, Rows, Table
from layers.floor import operations
from layers.floor.account import Account
from layers.floor.hardware import SCALE_OUT, SCALE_UP
from layers.floor.layout import all_reduce, exchange
from layers.floor.precision import bytes_of

# Bytes of a stored weight, scales included, and the dtype of its arithmetic.
FORMATS = {
    "bfloat16": (bytes_of("bf16"), "bf16"),
    "fp8": (bytes_of("fp8"), "fp8"),
    "fp8_block": (bytes_of("fp8_block"), "fp8"),
    "nvfp4": (bytes_of("nvfp4"), "fp4"),
    "int8_wo": (bytes_of("int8"), "bf16"),
    "int4_wo": (bytes_of("int4"), "bf16"),
    "sq": (bytes_of("int8"), "int8"),
    "w4a16_mxfp4": (bytes_of("mxfp4"), "bf16"),
    "w4a8_mxfp4_mxfp8": (bytes_of("mxfp4"), "fp8"),
    "w4afp8": (bytes_of("int4"), "fp8"),
}
ELEMENT = {"half": 2.0, "bfloat16": 2.0, "int8": 1.0}
WIDENING = {  # kernels that widen an 8-bit cache and compute in 16 bits
    "flashinfer",
    "triton",
    "vllm_flashinfer_fidecode",
    "vllm_flashinfer_fiprefill",
}
WIDENING_FAMILIES = {"ampere", "ada", "blackwell_workstation"}  # where TensorRT-LLM does
LATENT, ROTARY, NOPE, VALUE, QUERY_RANK, HIDDEN = 512.0, 64.0, 128.0, 128.0, 1536.0, 7168.0
CHUNK = 8192.0  # of Llama-4's local attention
# DeepSeek-V3, which routes to four of eight groups.
GROUPED = {"hidden_size": 7168, "inter_size": 2048, "num_experts": 256, "topk": 8}


def gemm(rows: Rows) -> Array:
    """Return the floor of a product on several weights in turn."""
    m, n, k = rows["m"], rows["n"], rows["k"]
    dtype, framework = rows.words["gemm_dtype"], rows.words["framework"]
    weight, math = FORMATS[dtype]
    # SGLang's int8_wo is int8_scaled_mm: activations are quantised, the product is one of int8.
    math = "int8" if (dtype, framework) == ("int8_wo", "sglang") else math
    copies = _copies(n * k, dtype, framework, rows.hardware.cache_bytes)
    shared = (1.0 if dtype == "sq" else 2.0) / copies
    asked = operations.gemm(
        m,
        n,
        k,
        math=rows.math(math),
        weight_bytes=weight,
        activation_bytes=shared,
        output_bytes=2.0 / copies,
    )
    return _seconds(rows, asked, copies)


def _copies(elements: Array, dtype: str, framework: str, cache_bytes: float) -> Array:
    """Return how many weights are used in turn."""
    if dtype in ("int8_wo", "int4_wo", "sq"):
        return np.ones_like(elements)
    if framework == "trtllm":
        width = {"bfloat16": 2.0, "nvfp4": 0.5}.get(dtype, 1.0)
        filled: Array = np.clip(np.ceil(cache_bytes / (elements * width)), 1.0, 5.0)
        return filled
    single = framework == "vllm" and dtype in ("fp8_block", "nvfp4")
    return np.full_like(elements, 1.0 if single else 6.0)


def context(rows: Rows) -> Array:
    """Return the floor of causal attention over new tokens."""
    tokens, window = rows["isl"], rows["window_size"]
    batch, local = rows["batch_size"], rows.words["framework"] == "sglang"
    chunks = np.where(local & (window == CHUNK), np.floor(tokens / CHUNK), 0.0)
    whole = _context(rows, batch * chunks, np.full_like(tokens, CHUNK), window)
    return _seconds(rows, whole + _context(rows, batch, tokens - chunks * CHUNK, window))


def _context(rows: Rows, batch: Array, tokens: Array, window: Array) -> Account:
    narrow = "fp8" in (rows.words["attn_dtype"], rows.words["kv_cache_dtype"])
    return operations.context_attention(
        batch,
        tokens,
        _heads(rows),
        math=_attention_math(rows),
        cache_bytes=_cache(rows),
        query_bytes=1.0 if narrow else 2.0,
        window=np.where(window > 0, window, tokens),
    )


def encoder(rows: Rows) -> Array:
    """Return the floor of attention of all tokens over all."""
    width, heads = rows["head_dim"], rows["num_heads"]
    asked = operations.context_attention(
        rows["batch_size"],
        rows["isl"],
        operations.Heads(heads, heads, width, width),
        math=rows.math(FORMATS[rows.words["attn_dtype"]][1]),
        cache_bytes=FORMATS[rows.words["attn_dtype"]][0],
        query_bytes=FORMATS[rows.words["attn_dtype"]][0],
        causal=False,
    )
    return _seconds(rows, asked)


def decode(rows: Rows) -> Array:
    """Return the floor of attention of one token a sequence over its cache."""
    step, window = rows["step"], rows["window_size"]
    keys_only = (rows.words["framework"], rows.words["version"]) == ("trtllm", "1.0.0")
    asked = operations.decode_attention(
        rows["batch_size"],
        step,
        _heads(rows),
        math=_attention_math(rows),
        cache_bytes=_cache(rows) / (2.0 if keys_only else 1.0),
        window=np.where(window > 0, window, step),
    )
    return _seconds(rows, asked)


def _heads(rows: Rows) -> operations.Heads:
    width = rows["head_dim"]
    mimo = (width == 192) & (rows.words["framework"] == "sglang")
    values = np.where(mimo, 128.0, width)
    return operations.Heads(rows["num_heads"], rows["num_key_value_heads"], width, values)


def _cache(rows: Rows) -> float:
    return 1.0 if rows.words["kv_cache_dtype"] == "fp8" else 2.0


def _attention_math(rows: Rows) -> str:
    """Return the dtype of the arithmetic: with an 8-bit cache, 8 bits, but for kernels that widen it."""
    kernel, family = rows.words["kernel_source"], rows.hardware.family
    if rows.words["attn_dtype"] == "fp8":
        return rows.math("fp8")
    widens = kernel in WIDENING or (kernel == "torch_flow" and family in WIDENING_FAMILIES)
    return rows.math("bf16" if widens or rows.words["kv_cache_dtype"] != "fp8" else "fp8")


def latent_context(rows: Rows) -> Array:
    """Return the floor of latent attention of new tokens, keys and values made from the latent once."""
    heads, narrow = rows["num_heads"], rows.words["kv_cache_dtype"] == "fp8"
    asked = operations.context_attention(
        rows["batch_size"],
        rows["isl"],
        operations.Heads(heads, heads, NOPE + ROTARY, VALUE),
        math=rows.math("fp8" if narrow else "bf16"),
        cache_bytes=0.0,
        query_bytes=1.0 if narrow else 2.0,
    )
    return _seconds(rows, asked)


def latent_decode(rows: Rows) -> Array:
    """Return the floor of absorbed latent attention of one token a sequence."""
    return _seconds(rows, _latent_decode(rows, rows["step"]))


def _latent_decode(rows: Rows, kept: Array) -> Account:
    narrow = rows.words["kv_cache_dtype"] == "fp8"
    return operations.latent_decode(
        rows["batch_size"],
        kept,
        rows["num_heads"],
        (LATENT, ROTARY),
        math=rows.math("fp8" if narrow else "bf16"),
        cache_bytes=1.0 if narrow else 2.0,
    )


def latent_module_context(rows: Rows) -> Array:
    """Return the floor of a latent attention layer on new tokens; keys stay in the cache between two parts."""
    heads = rows["num_heads"]
    narrow = "fp8" in (rows.words["mla_dtype"], rows.words["kv_cache_dtype"])
    attention = operations.context_attention(
        rows["batch_size"],
        rows["isl"],
        operations.Heads(heads, heads, NOPE + ROTARY, VALUE),
        math=rows.math("fp8" if narrow else "bf16"),
        cache_bytes=0.0,
        query_bytes=0.0,
    )
    return _seconds(rows, attention + _projections(rows, rows["batch_size"] * rows["isl"]))


def latent_module_decode(rows: Rows) -> Array:
    """Return the floor of a latent attention layer on one token a sequence."""
    kept = rows["isl"] + rows["step"] - 1.0
    return _seconds(rows, _latent_decode(rows, kept) + _projections(rows, rows["batch_size"]))


def _projections(rows: Rows, tokens: Array) -> Account:
    """Return the matrices of a latent attention layer, split over heads as far as they have any."""
    heads = rows["num_heads"]
    weight, math = FORMATS[rows.words["gemm_type"] or "fp8_block"]
    low = HIDDEN * (QUERY_RANK + LATENT + ROTARY)
    each = QUERY_RANK * (NOPE + ROTARY) + LATENT * (NOPE + VALUE) + VALUE * HIDDEN
    elements = low + heads * each
    moved = elements * weight + 2.0 * 2.0 * tokens * HIDDEN
    return Account(hbm_bytes=moved, flops={rows.math(math): 2.0 * tokens * elements})


def latent_expansion(rows: Rows) -> Array:
    """Return the floor of the products that carry queries into the latent space and values out of it."""
    heads, tokens = rows["num_heads"], rows["num_tokens"]
    size, math = FORMATS[rows.words["bmm_dtype"]]
    moved = heads * (NOPE * LATENT * size + tokens * (NOPE + LATENT) * size)
    flops = {rows.math(math): 2.0 * heads * tokens * NOPE * LATENT}
    return _seconds(rows, Account(hbm_bytes=moved, flops=flops))


def experts(rows: Rows) -> Array:
    """Return the floor of the routed experts of the device with most pairs."""
    pairs, met = _routed(rows)
    hidden, top_k = rows["hidden_size"], rows["topk"]
    inner = rows["inter_size"] / rows["moe_tp_size"]
    weight, math = FORMATS[rows.words["moe_dtype"]]
    ungated = ((hidden == 2688) & (rows["inter_size"] == 1856)) | (top_k == 22)
    asked = operations.experts(
        pairs,
        met,
        hidden,
        inner,
        math=rows.math(math),
        weight_bytes=weight,
        top_k=top_k,
        matrices=np.where(ungated, 2.0, 3.0),
    )
    return _seconds(rows, asked)


def _routed(rows: Rows) -> tuple[Array, Array]:
    """Return pairs and experts met: see `benchmarks.silicon_rows` for what routing does."""
    columns = ("num_tokens", "num_experts", "topk", "moe_ep_size")
    asked = np.stack([rows[column] for column in columns], axis=1).astype(int)
    calls, place = np.unique(asked, axis=0, return_inverse=True)
    coarse = rows.words["framework"] == "vllm"
    name = rows.words["distribution"]
    found = np.array([routed(name, *map(int, call), coarse=coarse) for call in calls])[place]
    pairs, met = found[:, 0], found[:, 1]
    if rows.words["kernel_source"] == "moe_torch_flow_min_latency":
        met = np.minimum(met, np.maximum(1.0, rows["topk"] / rows["moe_ep_size"]))
    grouped = np.all([rows[column] == value for column, value in GROUPED.items()], axis=0)
    return pairs, np.where(grouped, np.maximum(1.0, met / 2.0), met)


def nccl(rows: Rows) -> Array:
    """Return the floor of a collective of the vendor's library."""
    return _collective(rows, rows.words["op_name"], ELEMENT[rows.words["nccl_dtype"]])


def custom_all_reduce(rows: Rows) -> Array:
    """Return the floor of a framework's own all-reduce."""
    return _collective(rows, "all_reduce", ELEMENT[rows.words["allreduce_dtype"]])


def _collective(rows: Rows, name: str, element: float) -> Array:
    size = rows["message_size"] * element
    devices = int(rows.words["num_gpus"])
    made = all_reduce if name == "all_reduce" else exchange
    asked = made(size, devices, rows.hardware)
    found: Array = operations.floor_s(asked, rows.hardware)
    return found


def exchanged(rows: Rows) -> Array:
    """Return the floor of one way of tokens to experts or back (`moe_a2a`)."""
    element = {"bfloat16": 2.0, "nvfp4": 0.5, "fp4": 0.5}.get(rows.words["comm_dtype"], 1.0)
    return _exchange(
        rows, rows["num_tokens"] * rows["hidden_size"] * element, rows["ep_size"], rows["topk"]
    )


def dispatched(rows: Rows) -> Array:
    """Return the floor of DeepEP's dispatch, in 8 bits."""
    return _deep_ep(rows, 1.0)


def combined(rows: Rows) -> Array:
    """Return the floor of DeepEP's combine, in 16 bits."""
    return _deep_ep(rows, 2.0)


def _deep_ep(rows: Rows, element: float) -> Array:
    """Return the floor on one node, or of the one copy a token that has to leave it on several."""
    size, nodes = rows["num_token"] * rows["hidden_size"] * element, rows["node_num"]
    devices = np.full_like(nodes, 4.0 if rows.words["system"].startswith("gb") else 8.0)
    near = _exchange(rows, size, devices, rows["num_topk"])
    away = size * (nodes - 1.0) / nodes / rows.hardware.links[SCALE_OUT].bytes_per_s
    return np.where(nodes > 1, away, near)


def _exchange(rows: Rows, size: Array, devices: Array, top_k: Array) -> Array:
    """Return the seconds of sending `size` bytes to each of the other devices that has one of top_k experts.

    Experts are drawn evenly: of n - 1 others, a share of 1 - (1 - 1/n)^k has one at least.
    """
    others = (devices - 1.0) * (1.0 - (1.0 - 1.0 / devices) ** top_k)
    link = rows.hardware.links[SCALE_UP]
    found: Array = size * others / link.bytes_per_s + link.latency_s
    return found


def delta_rule(rows: Rows) -> Array:
    """Return the floor of a gated delta rule over a state of keys by values a head, in 16 bits."""
    keys = rows["num_k_heads"] * rows["head_k_dim"]
    values = rows["num_v_heads"] * rows["head_v_dim"]
    asked = operations.recurrence(
        rows["batch_size"],
        rows["num_tokens"] / rows["batch_size"],
        rows["num_v_heads"],
        (rows["head_k_dim"], rows["head_v_dim"]),
        math=rows.math("bf16"),
        state_bytes=2.0,
        token_bytes=2.0 * (2.0 * keys + 2.0 * values),
        each=4.0,
    )
    return _seconds(rows, asked)


def _seconds(rows: Rows, asked: Account, copies: Array | float = 1.0) -> Array:
    found: Array = operations.floor_s(asked, rows.hardware, copies)
    return found


ATTENTION = ("batch_size", "num_heads", "num_key_value_heads", "head_dim", "window_size")
MODULE = ("batch_size", "isl", "step", "num_heads")
MODULE_TYPES = ("gemm_type", "mla_dtype", "kv_cache_dtype")
EXPERTS = ("hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
DELTA = ("batch_size", "num_tokens", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim")

DEEP_EP = ("node_num", "hidden_size", "num_token", "num_topk", "num_experts")

TABLES = (
    Table("GEMM", ("gemm",), ("gemm_dtype",), (), ("m", "n", "k"), gemm),
    Table(
        "context attention",
        ("context_attention",),
        ("attn_dtype", "kv_cache_dtype"),
        ("kernel_source",),
        (*ATTENTION, "isl"),
        context,
    ),
    Table(
        "decode attention",
        ("generation_attention",),
        ("attn_dtype", "kv_cache_dtype"),
        ("kernel_source",),
        (*ATTENTION, "step"),
        decode,
    ),
    Table(
        "encoder attention",
        ("encoder_attention",),
        ("attn_dtype",),
        (),
        ("batch_size", "isl", "num_heads", "head_dim"),
        encoder,
    ),
    Table(
        "MLA context",
        ("context_mla",),
        ("kv_cache_dtype",),
        (),
        ("batch_size", "isl", "num_heads"),
        latent_context,
    ),
    Table(
        "MLA decode",
        ("generation_mla",),
        ("kv_cache_dtype",),
        (),
        ("batch_size", "step", "num_heads"),
        latent_decode,
    ),
    Table(
        "MLA context module",
        ("mla_context_module", "wideep_context_mla"),
        MODULE_TYPES,
        (),
        (*MODULE, "model"),
        latent_module_context,
    ),
    Table(
        "MLA decode module",
        ("mla_generation_module", "wideep_generation_mla"),
        MODULE_TYPES,
        (),
        (*MODULE, "model"),
        latent_module_decode,
    ),
    Table(
        "MLA expansion",
        ("mla_bmm",),
        ("bmm_dtype",),
        (),
        ("num_tokens", "num_heads", "op_name"),
        latent_expansion,
    ),
    Table(
        "experts",
        ("moe",),
        ("moe_dtype",),
        ("distribution", "kernel_source"),
        (*EXPERTS, "num_tokens", "distribution"),
        experts,
    ),
    Table(
        "experts, wide EP",
        ("wideep_moe", "wideep_context_moe", "wideep_generation_moe"),
        ("moe_dtype",),
        ("distribution", "kernel_source"),
        (*EXPERTS, "num_tokens", "distribution", "table"),
        experts,
    ),
    Table(
        "collectives",
        ("nccl", "oneccl"),
        ("nccl_dtype",),
        ("op_name", "num_gpus"),
        ("op_name", "num_gpus", "message_size"),
        nccl,
    ),
    Table(
        "custom all-reduce",
        ("custom_allreduce",),
        ("allreduce_dtype",),
        ("num_gpus",),
        ("num_gpus", "message_size"),
        custom_all_reduce,
    ),
    Table(
        "expert exchange",
        ("moe_a2a",),
        ("comm_dtype",),
        ("phase",),
        ("phase", "ep_size", "hidden_size", "topk", "num_experts", "num_tokens"),
        exchanged,
        unit_s=1e-6,
    ),
    Table(
        "expert dispatch, DeepEP",
        ("wideep_deepep_normal",),
        (),
        (),
        DEEP_EP,
        dispatched,
        ("dispatch_transmit_us", "dispatch_notify_us"),
        1e-6,
    ),
    Table(
        "expert combine, DeepEP",
        ("wideep_deepep_normal",),
        (),
        (),
        DEEP_EP,
        combined,
        ("combine_transmit_us", "combine_notify_us"),
        1e-6,
    ),
    Table(
        "expert dispatch, DeepEP low latency",
        ("wideep_deepep_ll",),
        (),
        (),
        DEEP_EP,
        dispatched,
        ("dispatch_avg_t_us",),
        1e-6,
    ),
    Table(
        "expert combine, DeepEP low latency",
        ("wideep_deepep_ll",),
        (),
        (),
        DEEP_EP,
        combined,
        ("combine_avg_t_us",),
        1e-6,
    ),
    Table(
        "linear attention",
        ("gdn", "kda"),
        (),
        (),
        (*DELTA, "phase"),
        delta_rule,
        without="conv1d",
    ),
)

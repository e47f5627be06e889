"""Strict reading of a configuration: every key is either asked for, or declared to have no bearing on an account."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

MOST = 2**31  # no size of a model is larger
MOST_LAYERS = 512

# Keys of Hugging Face configurations that change no matrix, no cache and no count: how a model was
# trained, is prompted, samples, turns positions, normalises, scales or activates.
_PASSIVE = """
    architectures auto_map model_type transformers_version _name_or_path torch_dtype dtype use_bfloat16
    torchscript id2label label2id problem_type task_specific_params finetuning_task tokenizer_class
    return_dict return_dict_in_generate output_attentions output_hidden_states output_scores
    output_router_logits use_cache is_decoder _attn_implementation tf_legacy_loss pruned_heads

    bos_token_id eos_token_id pad_token_id sep_token_id unk_token_id decoder_start_token_id forced_bos_token_id
    forced_eos_token_id bad_words_ids suppress_tokens begin_suppress_tokens prefix image_token_id
    image_token_index image_placeholder video_token_id video_token_index video_placeholder audio_token_id
    boa_token_id boi_token_id eoa_token_id eoa_token_index eoi_token_id boi_token_index eoi_token_index
    vision_start_token_id vision_end_token_id media_placeholder_token_id ignore_index image_seq_length
    image_grid_pinpoints img_token_compression_config process_image_mode vision_soft_tokens_per_image
    mm_tokens_per_image vision_feature_layer vision_feature_select_strategy use_unified_vision_chunk
    spatial_merge_size num_reward_heads multimodal_projector_bias projector_hidden_act

    temperature top_k top_p typical_p do_sample num_beams num_beam_groups num_return_sequences max_length
    min_length length_penalty repetition_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size
    diversity_penalty early_stopping exponential_decay_length_penalty remove_invalid_values
    chunk_size_feed_forward tie_encoder_decoder cross_attention_hidden_size

    attention_dropout hidden_dropout embd_pdrop resid_pdrop initializer_range initializer_factor
    rescale_prenorm_residual router_aux_loss_coef router_jitter_noise input_jitter_noise aux_loss_alpha seq_aux
    pretraining_tp ep_size max_position_embeddings original_max_position_embeddings initial_context_length
    rms_norm_eps norm_eps layer_norm_eps layer_norm_epsilon layernorm_epsilon residual_in_fp32
    hidden_act hidden_activation mlp_hidden_act mamba_hidden_act activation_situ_beta
    activation_situ_linear_beta swiglu_limit swiglu_alpha attention_bias qkv_bias mlp_bias use_bias
    use_conv_bias mamba_proj_bias mamba_conv_bias projectors_bias bias final_logit_softcapping
    attn_logit_softcapping query_pre_attn_scalar logits_scaling embedding_multiplier residual_multiplier
    attention_multiplier logit_scale clip_qkv norm_after lm_head_bias interpolation_factor
    cache_implementation model_max_length

    rope_theta rope_scaling rope_parameters rope_local_base_freq rope_interleave swa_rope_theta
    compress_rope_theta rotary_dim partial_rotary_factor use_mrope indexer_rope_interleave mla_use_nope
    attn_temperature_tuning attn_scale floor_scale use_qk_norm qk_norm_type use_gemma_norm qk_head_dim
    add_swa_attention_sink_bias add_full_attention_sink_bias attention_value_scale
    use_bidirectional_attention output_gate_type for_llm_compressor

    n_group topk_group num_expert_group use_grouped_topk topk_method scoring_func norm_topk_prob
    moe_renormalize moe_router_activation_func moe_router_scaling_factor moe_router_dtype
    use_moe_router_bias use_routing_bias routed_scaling_factor latent_moe_use_norm num_hash_layers
    moe_shared_expert_overlap attn_res_block_size hc_eps hc_sinkhorn_iters
    index_share_for_mtp_iteration

    chunk_size expand num_logits_to_keep time_step_floor time_step_limit time_step_max time_step_min
    time_step_init_scheme time_step_scale
    time_step_rank use_mamba_kernels mamba_chunk_size mamba_rms_norm
    mamba_norm_before_gate mamba_use_mlp mamba_expand mlp_expansion_factor ssm_multipliers ssm_in_multiplier
    ssm_out_multiplier attention_in_multiplier attention_out_multiplier key_multiplier mlp_multipliers
    embedding_multipliers lm_head_multiplier attn_layer_indices
"""
PASSIVE = frozenset(_PASSIVE.split())


class ConfigError(ValueError):
    """A configuration that cannot be read: what is wrong, where, and what would help."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        """Keep both."""
        super().__init__(f"{message}\n  hint: {hint}" if hint else message)
        self.hint = hint


def _shown(value: object) -> str:
    return repr(value)[:60]


class Keys:
    """One mapping of a configuration, and which of its keys were asked for.

    A key that is null counts as absent. Every reader takes a key's aliases and raises ConfigError
    with the key's place for a value of another kind, or where aliases disagree.
    """

    def __init__(self, found: object, place: str = "") -> None:
        """Take the mapping at `place` (empty: the whole file)."""
        if not isinstance(found, Mapping):
            raise ConfigError(f"{place or 'configuration'}: not a mapping but {_shown(found)}")
        self._found = found
        self._place = place
        self._asked: set[str] = set()

    def at(self, name: object) -> str:
        """Return the place of a key."""
        return f"{self._place}.{str(name)[:60]}" if self._place else str(name)[:60]

    def has(self, name: str) -> bool:
        """Return whether the key is there and not null."""
        return self._found.get(name) is not None

    def names(self) -> list[str]:
        """Return the names of all keys."""
        return [str(name) for name in self._found]

    def any(self, *names: str) -> object:
        """Return what stands at the key, None where it is absent."""
        self._asked.update(names)
        there = [name for name in names if self._found.get(name) is not None]
        if any(self._found[name] != self._found[there[0]] for name in there[1:]):
            raise ConfigError(f"{' and '.join(self.at(name) for name in there)} disagree")
        return self._found[there[0]] if there else None

    def count(
        self, *names: str, default: int | None = None, least: int = 1, most: int = MOST
    ) -> int:
        """Return a whole number from `least` to `most`; `default` where it is absent."""
        value = self.any(*names)
        if value is None:
            if default is None:
                raise ConfigError(f"{self.at(names[0])} is missing", "the account needs this size")
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ConfigError(
                f"{self.at(names[0])}: {_shown(value)} is no whole number from {least} to {most}"
            )
        return value

    def number(self, name: str) -> float:
        """Return a positive number."""
        value = self.any(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST:
            raise ConfigError(f"{self.at(name)}: {_shown(value)} is no number above 0")
        return float(value)

    def flag(self, *names: str, default: bool | None = None) -> bool:
        """Return true or false."""
        value = self.any(*names)
        if value is None and default is not None:
            return default
        if not isinstance(value, bool):
            raise ConfigError(f"{self.at(names[0])}: {_shown(value)} is neither true nor false")
        return value

    def text(self, *names: str, default: str | None = None) -> str:
        """Return a text."""
        value = self.any(*names)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            raise ConfigError(f"{self.at(names[0])}: {_shown(value)} is no text")
        return value

    def choices(
        self, name: str, allowed: Container[object], layers: int | None = None
    ) -> list[Any] | None:
        """Return a list of `allowed` things, one for each layer if so asked; None where it is absent."""
        value = self.any(name)
        if value is None:
            return None
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            raise ConfigError(f"{self.at(name)}: {_shown(value)} is no list")
        if layers is not None and len(value) < layers:
            raise ConfigError(f"{self.at(name)} tells of {len(value)} layers, there are {layers}")
        for one in value:
            if one not in allowed:
                raise ConfigError(
                    f"{self.at(name)}: {_shown(one)} is not declared",
                    f"declared: {_shown(allowed)}; another kind of layer is a module to declare",
                )
        return list(value[:layers])

    def pass_over(self, *names: str) -> None:
        """Take keys as read that say again what others say, or are without effect here."""
        self._asked.update(names)

    def section(self, name: str) -> Keys | None:
        """Return the mapping at a key, None where it is absent."""
        value = self.any(name)
        return None if value is None else Keys(value, self.at(name))

    def refuse(self, *names: str, unless: object = None) -> None:
        """Raise ConfigError where a key turns on something that no module is declared for."""
        for name in names:
            value = self.any(name)
            if value is not None and value != unless:
                raise ConfigError(
                    f"{self.at(name)}: {_shown(value)} is not declared",
                    "this changes what a layer holds or reads: declare a module for it",
                )

    def finish(self) -> None:
        """Raise ConfigError with the keys that nobody asked for and whose meaning is not declared."""
        rest = sorted(
            str(name)[:60]
            for name, value in self._found.items()
            if value is not None and name not in self._asked and name not in PASSIVE
        )
        if rest:
            shown = ", ".join(self.at(name) for name in rest[:8])
            raise ConfigError(
                f"{shown}{' and more' if rest[8:] else ''}: not declared for this architecture",
                "if it changes matrices or caches, declare it with its family in layers/floor/configs; "
                "if not, in PASSIVE of layers/floor/configs/keys.py",
            )

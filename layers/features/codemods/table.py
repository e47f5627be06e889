"""The table of codemods; whoever adds one adds a line here and a card in the cookbook."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from layers.features.codemod import Codemod
from layers.features.codemods import (
    astype_roundtrips,
    concat,
    decode_loops,
    fill_missing,
    fixed_datetimes,
    frame_values,
    input_views,
    lookups,
    native_vocabulary,
    pandas_rows,
    ragged_padding,
    regex_per_call,
    string_outputs,
    ufunc_batches,
    vocabulary,
)

_ALL = (
    lookups.CODEMOD,
    concat.CODEMOD,
    vocabulary.CODEMOD,
    native_vocabulary.CODEMOD,
    ufunc_batches.CODEMOD,
    fill_missing.CODEMOD,
    astype_roundtrips.CODEMOD,
    ragged_padding.CODEMOD,
    input_views.CODEMOD,
    pandas_rows.CODEMOD,
    frame_values.CODEMOD,
    fixed_datetimes.CODEMOD,
    decode_loops.CODEMOD,
    regex_per_call.CODEMOD,
    string_outputs.CODEMOD,
)

CODEMODS: Mapping[str, Codemod] = MappingProxyType({codemod.name: codemod for codemod in _ALL})

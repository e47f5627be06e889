"""The table of codemods; whoever adds one adds a line here and a card in the cookbook."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from layers.features.codemod import Codemod
from layers.features.codemods.columns import concat, fill_missing, ufunc_batches
from layers.features.codemods.frames import fixed_datetimes, frame_values, pandas_rows
from layers.features.codemods.inputs import input_views, lookups
from layers.features.codemods.lists import astype_roundtrips, ragged_padding
from layers.features.codemods.text import decode_loops, regex_per_call, string_outputs
from layers.features.codemods.vocabulary import native_vocabulary, vocabulary_lookups

_ALL = (
    lookups.CODEMOD,
    concat.CODEMOD,
    vocabulary_lookups.CODEMOD,
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

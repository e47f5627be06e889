"""The table of codemods; whoever adds one adds a line here and a card in the cookbook."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from layers.features.codemod import Codemod
from layers.features.codemods import concat, lookups

_ALL = (
    lookups.CODEMOD,
    concat.CODEMOD,
)

CODEMODS: Mapping[str, Codemod] = MappingProxyType({codemod.name: codemod for codemod in _ALL})

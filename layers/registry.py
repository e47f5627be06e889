"""The table of layers. A new layer is a folder, a line here and a run of the contract tests."""

from __future__ import annotations

from collections.abc import Mapping

from layers.base import Layer, LayerName
from layers.config.layer import ConfigLayer
from layers.features.layer import FeaturesLayer
from layers.server.layer import ServerLayer

LAYERS: Mapping[LayerName, Layer] = {
    layer.name: layer for layer in (FeaturesLayer(), ServerLayer(), ConfigLayer())
}

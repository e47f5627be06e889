"""The engine, imported when a command needs it."""

from __future__ import annotations

import importlib
from types import ModuleType

from layers.errors import Missing

OWN = frozenset({"bot", "layers", "knowledge"})


def load(module: str = "layers.run") -> ModuleType:
    """Return a module of the engine.

    Raises `Missing` where a package of the extra `engine` is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in OWN:
            raise
        raise Missing(
            f"this command measures, and the package {error.name!r} is not installed",
            hint="pip install 'fvec[engine]'",
        ) from error

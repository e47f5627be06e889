"""The engine, the service and what talks to GitHub: imported when a command needs them."""

from __future__ import annotations

import importlib
from types import ModuleType

from layers.errors import Missing

OWN = frozenset({"bot", "layers", "knowledge"})


def load(
    module: str = "layers.run",
    *,
    extras: str = "engine",
    told: str = "this command measures, and the package {!r} is not installed",
) -> ModuleType:
    """Return a module that needs packages of the extras that are named.

    Raises `Missing` where such a package is not installed; `told` says so, with its name.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in OWN:
            raise
        raise Missing(told.format(error.name), hint=f"pip install 'fvec[{extras}]'") from error

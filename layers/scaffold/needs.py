"""Which packages a stack's models need, and which requirements file names them."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from layers.errors import InvalidInput
from layers.scaffold.checkout import Checkout, join
from layers.scaffold.models import Model
from layers.triton import requirements

_OF_THE_SERVER = {"numpy", "triton_python_backend_utils", "c_python_backend_utils", "tritonclient"}
_DISTRIBUTIONS = {
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "PIL": "pillow",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}
_NAME = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


@dataclass(frozen=True, slots=True)
class Needs:
    """What the Python models of a stack import, and the file that lists it."""

    imports: Sequence[str]  # top-level packages that the server's environment lacks
    file: str | None  # relative to the root
    lacking: Sequence[str]  # of the imports, what the file does not list
    refused: Sequence[str] = ()  # why the file that fits best cannot be used, a line each


def find(checkout: Checkout, models: Sequence[Model]) -> Needs:
    """Return the needs of some models of a repository."""
    imports = sorted({name for model in models for name in _foreign(checkout, model)})
    if not imports:
        return Needs([], None, [])
    files = [
        join(folder, name)
        for folder, names in checkout.folders.items()
        for name in names
        if name.startswith("requirements") and name.endswith(".txt")
    ]
    if not files:
        return Needs(imports, None, imports)
    homes = {parent for model in models for parent in _parents(model.folder)}
    listed = {file: _listed(checkout, file) for file in files}

    def worth(file: str) -> tuple[int, bool, int, str]:
        folder = file.rpartition("/")[0]
        lacking = [name for name in imports if not _covers(listed[file], name)]
        return len(lacking), folder not in homes, file.count("/"), file

    best = min(files, key=worth)
    lacking = [name for name in imports if not _covers(listed[best], name)]
    if len(lacking) == len(imports):
        return Needs(imports, None, imports)
    refused = requirements.refused(checkout.text(best))
    if refused:
        told = [f"{best}:{line.number}:1: {line}" for line in refused]
        return Needs(imports, None, imports, told)
    return Needs(imports, best, lacking)


def _foreign(checkout: Checkout, model: Model) -> set[str]:
    """Return what a model imports that neither Python, the server nor the repository has."""
    if model.backend != "python":
        return set()
    own = {
        name.removesuffix(".py")
        for folder in checkout.folders
        if folder == model.folder or folder.startswith(f"{model.folder}/")
        for name in (*checkout.folders[folder], *checkout.below(folder))
    }
    return model.source.imports - _OF_THE_SERVER - own - sys.stdlib_module_names


def _parents(folder: str) -> list[str]:
    """Return a folder and all above it, the root as an empty string."""
    return [*[str(path) for path in (Path(folder), *Path(folder).parents) if path.parts], ""]


def _listed(checkout: Checkout, file: str) -> set[str]:
    try:
        text = checkout.text(file)
    except InvalidInput:
        return set()
    found = (_NAME.match(line) for line in text.splitlines())
    return {_normal(match.group(1)) for match in found if match}


def _covers(listed: set[str], name: str) -> bool:
    wanted = _normal(_DISTRIBUTIONS.get(name, name))
    return any(other == wanted or other.startswith(f"{wanted}-") for other in listed)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()

"""Which changed files a trial has run, by what the servers of both arms say that they have loaded.

What nobody ran was compared by nobody, and would go out with a verdict that says nothing of it.
Reads Python files of both arms for the names that they import; nothing of them is executed.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TypeAlias

from layers.evidence import Gate, GateResult
from layers.gates.paths import lies_in, listed, named_modules, read_by_builds
from layers.manifest import Manifest

Loaded: TypeAlias = Mapping[str, Collection[str]]  # versions that are ready on either arm, by model
Module: TypeAlias = tuple[str, ...]  # the parts of its dotted name

_TEXTS = frozenset({".md", ".rst", ".adoc"})
_NAMES = frozenset(
    {"readme", "license", "licence", "copying", "notice", "authors", "changelog", "contributing"}
)
_PICTURES = frozenset({".txt", ".png", ".jpg", ".jpeg", ".gif", ".svg"})  # in a folder of documents
_DOCUMENTS = frozenset({"doc", "docs"})
_TESTS = frozenset({"test", "tests"})


def served_gate(
    files: Iterable[str], manifest: Manifest, loaded: Loaded, roots: tuple[Path, Path]
) -> Gate | None:
    """Return the gate that fails where changed files were run by no arm, else None.

    Documentation and tests are let through: see `aside`, and `paths.not_exercised`. `roots` are the
    checkouts of the baseline and of the candidate, in which shared modules are looked for.
    """
    left = [path for path in _unserved(files, manifest, loaded) if not inert(path)]
    if left:
        imported = _Imported(roots, [PurePosixPath(manifest.stack.models, name) for name in loaded])
        left = [path for path in left if not imported.has(path)]
    if not left:
        return None
    detail = f"no arm has loaded, built or imported {listed(left)}; {_told(loaded)}"
    return Gate(name="served", result=GateResult.FAIL, reason="outside_served_files", detail=detail)


def aside(files: Iterable[str], manifest: Manifest, loaded: Loaded) -> str | None:
    """Say which documents and tests lie in models that no arm has loaded, None where none does."""
    models = PurePosixPath(manifest.stack.models)
    found = [
        path
        for path in _unserved(files, manifest, loaded)
        if inert(path) and models in PurePosixPath(path).parents
    ]
    return f"not exercised, of no loaded model: {listed(found)}" if found else None


def inert(path: str) -> bool:
    """Whether a file is documentation or a test, by its name: nothing of what is served."""
    pure = PurePosixPath(path.casefold())
    folders = set(pure.parts[:-1])
    if pure.suffix in _TEXTS or pure.name == ".gitignore":
        return True
    if pure.stem in _NAMES and pure.suffix in ("", ".txt"):
        return True
    if pure.suffix in _PICTURES and not folders.isdisjoint(_DOCUMENTS):
        return True
    if not folders.isdisjoint(_TESTS) or pure.name == "conftest.py":
        return True
    return pure.suffix == ".py" and (pure.stem.startswith("test_") or pure.stem.endswith("_test"))


def _unserved(files: Iterable[str], manifest: Manifest, loaded: Loaded) -> list[str]:
    """Return the files that lie neither in what is loaded nor in what builds read, sorted."""
    built, models = read_by_builds(manifest), PurePosixPath(manifest.stack.models)
    return sorted(
        path
        for path in files
        if not lies_in(path, built) and not _is_loaded(PurePosixPath(path), models, loaded)
    )


def _is_loaded(path: PurePosixPath, models: PurePosixPath, loaded: Loaded) -> bool:
    """Whether a file lies in the folder of a loaded model, and in no version that is not served."""
    if models not in path.parents:
        return False
    model, *rest = path.relative_to(models).parts
    if not rest or model not in loaded:
        return False
    version = rest[0]
    if len(rest) == 1 or not (version.isascii() and version.isdigit()):
        return True
    return str(int(version)) in loaded[model]


def _told(loaded: Loaded) -> str:
    names = [f"{model} ({', '.join(sorted(found))})" for model, found in sorted(loaded.items())]
    return f"loaded are {listed(names)}"


class _Imported:
    """Python files outside of the models that code of the models imports by name.

    A file of the baseline counts where the baseline's code does so, a new one where the candidate's
    does: a patch that adds an import makes nothing served that others run.
    """

    def __init__(self, roots: tuple[Path, Path], folders: list[PurePosixPath]) -> None:
        self._roots, self._folders = roots, folders
        self._reached: dict[Path, frozenset[str]] = {}

    def has(self, path: str) -> bool:
        """Whether a changed file is one of them."""
        baseline, candidate = self._roots
        root = baseline if (baseline / path).exists() else candidate
        if root not in self._reached:
            self._reached[root] = frozenset(map(str, _reached(root, self._folders)))
        return path in self._reached[root]


def _reached(root: Path, folders: Collection[PurePosixPath]) -> set[PurePosixPath]:
    """Return the Python files in the folders of a checkout, and those that they import by name."""
    files = {PurePosixPath(p.relative_to(root).as_posix()) for p in root.rglob("*.py")}
    modules: dict[Module, list[PurePosixPath]] = defaultdict(list)
    for file in sorted(files):
        for name in _names(file):
            modules[name].append(file)
    seen = {file for file in files if any(folder in file.parents for folder in folders)}
    waiting = sorted(seen)
    while waiting:
        file = waiting.pop()
        for name in named_modules(root / file):
            beside = [found for found in _beside(file, name) if found in files]
            known = name[0] in sys.stdlib_module_names
            found = beside or ([] if known else modules.get(name, []))
            waiting += [other for other in found if other not in seen]
            seen.update(found)
    return seen


def _names(file: PurePosixPath) -> Iterator[Module]:
    """Yield the dotted names that a file may be imported by, from whatever folder."""
    parts = file.parent.parts if file.name == "__init__.py" else file.with_suffix("").parts
    yield from (parts[start:] for start in range(len(parts)))


def _beside(file: PurePosixPath, name: Module) -> tuple[PurePosixPath, PurePosixPath]:
    """Return where a module lies that is found beside the file that imports it."""
    stem = file.parent.joinpath(*name)
    return stem.with_name(f"{stem.name}.py"), stem / "__init__.py"

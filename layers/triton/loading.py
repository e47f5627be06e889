"""Which models a server is told to load, and whether the manifest names those that it needs.

A server loads the entry and, with an ensemble, the models that it is made of. A model that Python
code calls by name stands in no configuration: `stack.load` of the manifest lists those. What only
the engine has installed is not imported here: `fvec config validate` works without it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from knowledge import yamltree
from layers.errors import InvalidInput, Location
from layers.manifest import MANIFEST_PATH, Manifest, manifest_file

_SHOWN = 8
_LISTED = "list what code calls by name, and no more"


def _unread(_config: Path) -> Iterable[str]:
    """Stand for a reader of ensembles where there is none."""
    return ()


def told(manifest: Manifest) -> tuple[str, ...]:
    """Return the models that a server is told to load: the entry first."""
    return manifest.stack.entry, *manifest.stack.load


def check(
    manifest: Manifest,
    root: Path,
    *,
    shown: Path = Path(MANIFEST_PATH),
    made: Collection[str] = (),
    steps: Callable[[Path], Iterable[str]] = _unread,
) -> None:
    """Raise InvalidInput for a line of `stack.load` that loads nothing more, with its place.

    That is one without a folder in the model repository below `root`, one that stands there twice,
    and one that is loaded with the entry anyway. `shown` is what errors call the manifest; models
    that are `made` need not be there yet; `steps` reads what an ensemble is made of.
    """
    section = manifest.stack
    models = root / section.models
    if not models.is_dir():
        return  # whoever starts the server says so
    known = {folder.name for folder in models.iterdir() if folder.is_dir()}
    entry = _with_steps(section.entry, known, lambda name: steps(models / name / "config.pbtxt"))
    for number, name in enumerate(section.load):
        if name not in known and name not in made:
            message = f"{section.models}/{name} does not exist"
            raise _wrong(root, shown, number, message, _nearest(name, known - entry))
        if name in section.load[:number]:
            raise _wrong(root, shown, number, f"{name} stands there twice", "remove this line")
        if name in entry:
            message = f"{name} is loaded already, as a part of {section.entry}"
            raise _wrong(root, shown, number, message, f"remove this line: {_LISTED}")


def _wrong(root: Path, shown: Path, number: int, message: str, hint: str) -> InvalidInput:
    return InvalidInput(f"stack.load: {message}", at=_place(root, shown, number), hint=hint)


def _place(root: Path, shown: Path, number: int) -> Location:
    """Return where the manifest names the model of that number, as exactly as it can be read."""
    try:
        tree = yamltree.parse(yamltree.read(manifest_file(root)), shown)
    except yamltree.YamlError:
        return Location(shown)
    section = (tree.mapping or {}).get("stack")
    listed = (section.mapping or {}).get("load") if section else None
    items = (listed.sequence or []) if listed else []
    if number >= len(items):
        return Location(shown)
    return Location(shown, items[number].place.line, items[number].place.column)


def _nearest(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"models that could be named: {', '.join(names[:_SHOWN]) or 'none'}{more}"


def _with_steps(
    name: str, known: Collection[str], steps: Callable[[str], Iterable[str]]
) -> set[str]:
    """Return a model with all that it is made of, as far as it lies in the model repository."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name in known and name not in seen:
            seen.add(name)
            waiting += steps(name)
    return seen

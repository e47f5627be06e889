"""What `fvec init` would write, everything it guessed, and the writing itself.

Nothing of the repository is executed or changed; the files written are new ones.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from layers.errors import InvalidInput, Location
from layers.manifest import manifest_file
from layers.scaffold import checkout, models
from layers.scaffold.checkout import Skipped
from layers.scaffold.draft import Draft, Guess
from layers.scaffold.entry import call_graph, choose_entry, choose_repository, reach
from layers.scaffold.models import Model, Repository


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be written, and what a person should know about it."""

    root: Path
    repository: Repository
    entry: Model
    used: Sequence[Model]  # the entry and all that it calls
    repositories: Sequence[Repository]
    files: Mapping[str, str]  # path relative to the root, to its text
    guesses: Sequence[Guess]
    correct_first: Sequence[str]  # most important first
    skipped: Sequence[Skipped]


def make(root: Path, *, repository: str | None = None, entry: str | None = None) -> Plan:
    """Return the plan for the repository at `root`; nothing is written.

    `repository` and `entry` settle what would be guessed otherwise. Raises InvalidInput: there is
    a manifest already, no folder, no model, none that can be read, or a model repository that no
    manifest can name.
    """
    root = _checked(root)
    tree = checkout.walk(root)
    found, skipped = models.find(tree)
    if not found:
        raise InvalidInput(
            f"{root} holds no model that can be read{_first(skipped)}",
            hint="fvec looks for MODELS/NAME/config.pbtxt, or MODELS/NAME/1/model.py and the like",
        )
    chosen, models_choice = choose_repository(found, repository)
    if not chosen.folder:
        raise InvalidInput(
            "the model repository is the root of the checkout, which no manifest can name",
            hint="move the models into a folder of their own, such as models/",
        )
    model, entry_choice = choose_entry(chosen, entry)
    used = [other for other in chosen.models if other.name in reach(call_graph(chosen), model.name)]
    draft = Draft(tree, chosen, model, used, models_choice, entry_choice)
    return Plan(
        root,
        chosen,
        model,
        used,
        found,
        draft.files(),
        draft.guesses(),
        draft.correct_first(),
        skipped,
    )


def write(plan: Plan) -> list[Path]:
    """Write the files of a plan, the manifest last; return where they are.

    Raises InvalidInput when one exists by now or cannot be written; what was written goes again.
    """
    written: list[Path] = []
    folders: list[Path] = []
    try:
        for name, text in plan.files.items():
            target = plan.root / name
            for folder in reversed(target.relative_to(plan.root).parents[:-1]):
                if not (plan.root / folder).is_dir():
                    (plan.root / folder).mkdir()
                    folders.append(plan.root / folder)
            with target.open("x", encoding="utf-8") as file:
                written.append(target)
                file.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # somebody else's file is in it by now
            for folder in reversed(folders):
                folder.rmdir()
        raise InvalidInput(
            f"cannot be written: {error.strerror}", at=Location(Path(str(error.filename or name)))
        ) from error
    return written


def _checked(root: Path) -> Path:
    """Return the resolved root; InvalidInput where it is none, or has a manifest."""
    if not root.is_dir():
        raise InvalidInput(f"{root} is not a folder", hint="PATH is a serving repository")
    path = manifest_file(root)
    if os.path.lexists(path):
        raise InvalidInput(
            "exists already; it is never overwritten",
            at=Location(path),
            hint="correct it by hand; `fvec config validate` says whether it is right",
        )
    if path.parent.is_symlink():
        raise InvalidInput(
            f"{path.parent.name} is a link; nothing is written through it", at=Location(path.parent)
        )
    resolved = root.resolve()
    above = next((folder for folder in resolved.parents if (folder / ".git").exists()), None)
    if above is not None and not (resolved / ".git").exists():
        raise InvalidInput(
            f"{root} is not the root of its checkout",
            hint=f"the root is {above}; a stack is a repository of its own",
        )
    return resolved


def _first(skipped: Sequence[Skipped]) -> str:
    if not skipped:
        return ""
    more = f", and {len(skipped) - 1} more" if len(skipped) > 1 else ""
    return f" ({skipped[0].path}: {skipped[0].reason}{more})"

"""`fvec config validate`: says whether the manifest of a serving repository is right."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from bot.commands import arguments
from bot.commands.outcome import Outcome

if TYPE_CHECKING:
    from layers.manifest import Manifest

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def add(commands: arguments.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("config", help="the manifest of a serving repository")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    validate = actions.add_parser("validate", help="check .github/fvec.yml")
    validate.add_argument(
        "path",
        metavar="PATH",
        type=Path,
        nargs="?",
        default=Path(),
        help="the serving repository, or a manifest file (default: here)",
    )
    validate.add_argument(
        "--schema", action="store_true", help="print the manifest's JSON schema instead"
    )
    arguments.add_json(validate)
    validate.set_defaults(handler=run)


def run(args: argparse.Namespace) -> Outcome:
    """Validate the manifest, and that the files it names are there.

    Raises `YamlError` or `InvalidInput`, with the place.
    """
    from rich.text import Text

    if args.schema:
        schema = manifest_schema()
        return Outcome(schema, Text(json.dumps(schema, indent=2)))
    path, root = locate(args.path)
    manifest = load(path)
    if root is not None:
        check_files(manifest, path, root)
    document = {"schema": "fvec.config/1", "path": str(path), "valid": True}
    return Outcome(document, Text(f"{path}: valid"))


def manifest_schema() -> dict[str, Any]:
    """Return the JSON schema of the manifest, which editors read."""
    from layers.manifest import Manifest

    return {"$schema": DIALECT, **Manifest.model_json_schema(by_alias=True)}


def locate(path: Path) -> tuple[Path, Path | None]:
    """Return the manifest's file and the repository around it, None for a file by itself.

    Raises `InvalidInput` where there is none.
    """
    from layers.errors import InvalidInput
    from layers.manifest import MANIFEST_PATH, manifest_file

    file = path if path.is_file() else manifest_file(path)
    if not file.is_file():
        if not path.is_dir():
            raise InvalidInput(
                f"{path} does not exist", hint="PATH is a serving repository, or a manifest file"
            )
        raise InvalidInput(
            f"{path} has no manifest",
            hint=f"run `fvec init {path}`, which writes a first {MANIFEST_PATH}",
        )
    root = file.parent.parent
    return file, root if manifest_file(root) == file else None


def load(path: Path) -> Manifest:
    """Return the validated manifest; raises `YamlError`."""
    from knowledge import yamlfile
    from layers.manifest import Manifest

    return yamlfile.load(path, Manifest)


def check_files(manifest: Manifest, path: Path, root: Path) -> None:
    """Raise `InvalidInput` for a named file that is absent and that no build step makes."""
    from layers.errors import InvalidInput, Location
    from layers.triton import loading

    made = [name for step in manifest.stack.build for name in step.outputs]
    named = {
        "stack.models": manifest.stack.models,
        "stack.entry": f"{manifest.stack.models}/{manifest.stack.entry}",
        "stack.requirements": manifest.stack.requirements,
        "traffic.requests": manifest.traffic.requests,
        "traffic.arrivals": manifest.traffic.arrivals,
        "correctness.referee": (manifest.correctness.referee or "").rpartition(":")[0],
        "correctness.metric": (manifest.correctness.metric or "").rpartition(":")[0],
    }
    for key, name in named.items():
        if name and not _is_made(PurePosixPath(name), made) and not (root / name).exists():
            raise InvalidInput(
                f"{key}: {name} does not exist in the repository",
                at=Location(path),
                hint="commit it, or name the build step's output that makes it",
            )
    models = PurePosixPath(manifest.stack.models)
    built = [name for name in manifest.stack.load if _is_made(models / name, made)]
    loading.check(manifest, root, shown=path, made=built)


def _is_made(path: PurePosixPath, outputs: Sequence[str]) -> bool:
    """Whether build steps make a file or folder, or something in it: outputs may be globs."""
    places = [str(place) for place in (path, *path.parents)]
    within = any(PurePosixPath(output).is_relative_to(path) for output in outputs)
    return within or any(fnmatchcase(place, output) for place in places for output in outputs)

"""Reads the models of a stack: each `config.pbtxt`, and a Python model's source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from layers.base import StackView
from layers.config.code import ModelCode, analyse
from layers.errors import InvalidInput, Location
from layers.triton.pbtxt import Document, decode, parse

MAX_BYTES = 1_000_000  # of one file; a larger one is data


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One model of the repository."""

    name: str  # of its folder, which is the name that the server gives it
    config: str  # path of its config.pbtxt, relative to the stack's root
    document: Document
    code: ModelCode | None  # None: not the Python backend, or source that is not to be read

    @property
    def backend(self) -> str:
        """Return the backend that runs it, also where only the older `platform` is given."""
        platforms = {
            "ensemble": "ensemble",
            "onnxruntime_onnx": "onnxruntime",
            "pytorch_libtorch": "pytorch",
            "tensorflow_graphdef": "tensorflow",
            "tensorflow_savedmodel": "tensorflow",
        }
        named = self.document.get("backend") or platforms.get(self.document.get("platform") or "")
        return str(named or "")


def read_models(stack: StackView) -> tuple[ServedModel, ...]:
    """Return the models that have a config.pbtxt, by name.

    Raises InvalidInput where the model repository is missing, or a config.pbtxt cannot be read
    (its line and column), is too large or lies outside the stack.
    """
    repository = stack.root / stack.manifest.stack.models
    if not repository.is_dir():
        raise InvalidInput(
            "the model repository is not a folder",
            at=Location(Path(stack.manifest.stack.models)),
            hint="stack.models of the manifest names it",
        )
    files = (file for file in sorted(repository.glob("*/config.pbtxt")) if file.is_file())
    return tuple(_read_model(stack.root, file) for file in files)


def _read_model(root: Path, file: Path) -> ServedModel:
    relative = file.relative_to(root)
    data = _read(root, file)
    document = parse(decode(data, relative), relative)
    code = _read_code(root, file.parent, document) if _is_python(document) else None
    return ServedModel(file.parent.name, relative.as_posix(), document, code)


def _is_python(document: Document) -> bool:
    """Whether the Python backend runs a model, if it has a module: the server guesses by that."""
    named = document.get("backend") or document.get("platform")
    return bool(named == "python" or (not named and document.get("ensemble_scheduling") is None))


def _read(root: Path, file: Path) -> bytes:
    """Return a file's bytes; a link out of the stack or an oversized file is refused."""
    at = Location(file.relative_to(root))
    if not file.resolve().is_relative_to(root.resolve()):
        raise InvalidInput("this link leads out of the repository", at=at)
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"cannot be read: {error.strerror}", at=at) from error
    if len(data) > MAX_BYTES:
        raise InvalidInput(f"larger than {MAX_BYTES:,} bytes", at=at)
    return data


def _read_code(root: Path, folder: Path, document: Document) -> ModelCode | None:
    """Return what the newest version's source says, None where it cannot be read."""
    main = document.get("default_model_filename") or "model.py"
    versions = [d for d in folder.iterdir() if d.name.isascii() and d.name.isdigit()]
    versions = [d for d in versions if (d / main).is_file()]
    if not versions:
        return None
    newest = max(versions, key=lambda version: int(version.name))
    try:
        sources = {file.name: _read(root, file).decode("utf-8") for file in newest.glob("*.py")}
    except (InvalidInput, UnicodeDecodeError):
        return None
    return analyse(sources, main)

"""Reads the models of a stack: each `config.pbtxt`, and a Python model's source."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from layers.base import StackView
from layers.config.code import ModelCode, analyse
from layers.errors import InvalidInput, Location
from layers.triton.pbtxt import Document, decode, parse

MAX_BYTES = 1_000_000  # of one file; a larger one is data
MAX_MODULES = (
    200  # of one model; a folder with more is an installation, about which nothing is known
)
MAX_FILES = 10_000  # of one version, whose sizes are added up


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One model of the repository."""

    name: str  # of its folder, which is the name that the server gives it
    config: str  # path of its config.pbtxt, relative to the stack's root
    document: Document
    code: ModelCode | None  # None: not the Python backend, or source that is not to be read
    size_bytes: int  # of the files of its newest version: what each instance may hold in memory

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
    name, config = file.parent.name, relative.as_posix()
    return ServedModel(name, config, document, code, _size_bytes(file.parent))


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
    versions = [version for version in _versions(folder) if (version / main).is_file()]
    if not versions:
        return None
    newest = versions[-1]
    files = list(islice(newest.rglob("*.py"), MAX_MODULES + 1))
    if len(files) > MAX_MODULES:
        return None
    try:
        sources = {
            file.relative_to(newest).as_posix(): _read(root, file).decode("utf-8")
            for file in files
            if file.is_file()
        }
    except (InvalidInput, UnicodeDecodeError):
        return None
    return analyse(sources, main)


def _versions(folder: Path) -> list[Path]:
    """Return the version folders of a model, the newest last."""
    found = (d for d in folder.iterdir() if d.name.isascii() and d.name.isdigit() and d.is_dir())
    return sorted(found, key=lambda version: int(version.name))


def _size_bytes(folder: Path) -> int:
    versions = _versions(folder)
    files = islice(versions[-1].rglob("*"), MAX_FILES) if versions else ()
    return sum(file.stat().st_size for file in files if file.is_file())

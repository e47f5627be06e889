"""The Python files of each model, with what its config.pbtxt declares."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from layers.base import StackView
from layers.errors import InvalidInput
from layers.features.codemod import File
from layers.triton.pbtxt import decode, parse
from layers.triton.pbtxt.document import Protobuf

MAX_SOURCE_BYTES = 200_000  # a larger file is data or generated code, and slow to analyse
OUR_PACKAGES = frozenset({"fvec_native", "fvec_vocabulary"})  # that a candidate brought
_INSTALLED = frozenset({"site-packages", "dist-packages"})  # an environment beside the model
MAX_CONFIG_BYTES = 1_000_000


def read_files(stack: StackView) -> dict[str, list[File]]:
    """Return each model's Python files, by model and in order of their paths.

    What cannot be read as UTF-8 is left out; a config.pbtxt that is absent or not to be read
    declares nothing.
    """
    models = stack.root / stack.manifest.stack.models
    found: dict[str, list[File]] = defaultdict(list)
    declared: dict[str, tuple[dict[str, str], dict[str, str]]] = {}
    for path in _python_files(models):
        try:
            text = path.read_bytes().decode()
        except UnicodeDecodeError:
            continue
        model = path.relative_to(models).parts[0]
        if model not in declared:
            declared[model] = _declared(models / model / "config.pbtxt")
        name = path.relative_to(stack.root).as_posix()
        found[model].append(File(name, text, *declared[model]))
    return dict(found)


def _python_files(models: Path) -> Iterator[Path]:
    """Yield regular files only: a link may lead out of the checkout. Not what others or we wrote."""
    for path in sorted(models.glob("*/**/*.py")):
        if (OUR_PACKAGES | _INSTALLED).intersection(path.relative_to(models).parts):
            continue
        inside = not any(p.is_symlink() for p in (path, *path.parents) if p.is_relative_to(models))
        if inside and path.is_file() and path.stat().st_size <= MAX_SOURCE_BYTES:
            yield path


def _declared(config: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Return the data types of inputs and outputs by name, empty where the file does not say."""
    try:
        if config.is_symlink() or config.stat().st_size > MAX_CONFIG_BYTES:
            return {}, {}
        document = parse(decode(config.read_bytes(), config), config)
    except (OSError, InvalidInput):
        return {}, {}
    return _types(document.message.input), _types(document.message.output)


def _types(tensors: Iterable[Protobuf]) -> dict[str, str]:
    return {
        tensor.name: tensor.DESCRIPTOR.fields_by_name["data_type"]
        .enum_type.values_by_number[tensor.data_type]
        .name
        for tensor in tensors
    }

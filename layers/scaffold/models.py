"""The models of a repository: folders with a `config.pbtxt`, or with a version that needs none."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from tritonclient.grpc import model_config_pb2

from layers.errors import InvalidInput
from layers.scaffold.checkout import Checkout, Skipped, join
from layers.scaffold.source import Source
from layers.triton import pbtxt

CONFIG = "config.pbtxt"
Message: TypeAlias = Any  # tritonclient's message classes come without types

_VERSION = re.compile(r"[1-9]\d{0,18}")
_TEMPLATE = re.compile(
    r"config\..*pbtxt.*|.*\.pbtxt\..+|config\.(j2|jinja2?|tmpl|template|tpl)", re.IGNORECASE
)
_PLACEHOLDER = re.compile(r"\$\{[^}\n]{0,60}\}?|\{\{[^}\n]{0,60}(?:\}\})?|\{%|<%|@[A-Z_]{2,40}@")
_SHELL_SAFE = re.compile(r"[A-Za-z0-9_./@+,:=-]+")  # see `layers.triton.starting`
_FILES = {  # of a version folder, to the backend that reads them
    "model.py": "python",
    "model.onnx": "onnxruntime",
    "model.plan": "tensorrt",
    "model.pt": "pytorch",
    "model.graphdef": "tensorflow",
    "model.savedmodel": "tensorflow",
    "model.xml": "openvino",
    "model.dali": "dali",
    "checkpoint.tl": "fil",
    "xgboost.json": "fil",
    "xgboost.model": "fil",
    "model.txt": "fil",
}
_PLATFORMS = {
    "ensemble": "ensemble",
    "onnxruntime_onnx": "onnxruntime",
    "tensorrt_plan": "tensorrt",
    "pytorch_libtorch": "pytorch",
    "tensorflow_graphdef": "tensorflow",
    "tensorflow_savedmodel": "tensorflow",
}


@dataclass(frozen=True, slots=True)
class Model:
    """One model as its folder shows it; its configuration need not be readable."""

    name: str
    folder: str  # relative to the root
    backend: str  # "python", "ensemble", "onnxruntime", ...; empty: not known
    config: Message  # ModelConfig, completed from model.py where that says the inputs
    readable: bool  # else `config` is empty
    source: Source = field(default_factory=Source)
    problems: Sequence[str] = ()  # what keeps a server from loading it
    notes: Sequence[str] = ()  # what was guessed or is unusual

    @property
    def calls(self) -> set[str]:
        """The models that it calls: as an ensemble, or from its code by name."""
        steps = self.config.ensemble_scheduling.step
        return {step.model_name for step in steps} | self.source.calls

    @property
    def decoupled(self) -> bool:
        """Whether one request has any number of answers."""
        return bool(self.config.model_transaction_policy.decoupled)

    @property
    def stateful(self) -> bool:
        """Whether requests of a sequence depend on each other."""
        return bool(self.config.HasField("sequence_batching"))


@dataclass(frozen=True, slots=True)
class Repository:
    """One Triton model repository of the checkout."""

    folder: str  # relative to the root; "" is the root itself
    models: Sequence[Model]

    def find(self, name: str) -> Model | None:
        """Return the model of that name."""
        return next((model for model in self.models if model.name == name), None)


def find(checkout: Checkout) -> tuple[list[Repository], list[Skipped]]:
    """Return all model repositories by path, and what looks like a model but cannot be read."""
    groups: dict[str, list[Model]] = defaultdict(list)
    skipped = list(checkout.skipped)
    for folder, files in sorted(checkout.folders.items()):
        templates = [name for name in files if _is_template(name)]
        skipped += [
            Skipped(join(folder, name), "a template, to be filled in") for name in templates
        ]
        if CONFIG not in files and _known_file(checkout, folder) is None:
            continue
        if not folder:
            reason = (
                "the root of the checkout is a model itself, not a folder of a model repository"
            )
            skipped.append(Skipped(CONFIG, reason))
            continue
        parent, _, name = folder.rpartition("/")
        if _VERSION.fullmatch(name):
            reason = "it lies in a version folder; servers read it one folder above"
            skipped.append(Skipped(join(folder, CONFIG), reason))
            continue
        model, faults = _model(checkout, folder, name, templates)
        groups[parent].append(model)
        skipped += faults
    return [Repository(folder, models) for folder, models in sorted(groups.items())], skipped


def _is_template(name: str) -> bool:
    return name != CONFIG and _TEMPLATE.fullmatch(name) is not None


def _versions(checkout: Checkout, folder: str) -> list[str]:
    return [name for name in checkout.below(folder) if _VERSION.fullmatch(name)]


def _known_file(checkout: Checkout, folder: str) -> str | None:
    """Return the model file, by its usual name, in any version of a model."""
    for version in _versions(checkout, folder):
        inside = join(folder, version)
        names = {*checkout.folders.get(inside, ()), *checkout.below(inside)}
        for name in _FILES:
            if name in names:
                return name
    return None


def _model(
    checkout: Checkout, folder: str, name: str, templates: Sequence[str]
) -> tuple[Model, list[Skipped]]:
    """Read one model; what is wrong with its files comes beside it."""
    problems: list[str] = []
    notes: list[str] = []
    source, faults = _source(checkout, folder)
    config, reason = _configuration(checkout, folder)
    if reason is not None:
        faults.append(Skipped(join(folder, CONFIG), reason))
        problems.append(f"its {CONFIG} is not readable: {reason}")
    elif config is None and templates:
        problems.append(f"there is only a template of its configuration: {templates[0]}")
    known = _known_file(checkout, folder)
    backend = _backend(config, known)
    readable = not problems
    config = config if config is not None else model_config_pb2.ModelConfig()
    if readable:
        notes += _complete(config, source, backend, has_file=checkout.has(join(folder, CONFIG)))
        malformed = _malformed(config)
        readable = not malformed
        problems += malformed or _problems(checkout, folder, config, backend, known)
    return Model(name, folder, backend, config, readable, source, problems, notes), faults


def _configuration(checkout: Checkout, folder: str) -> tuple[Message | None, str | None]:
    """Return the configuration that a file holds, or why it cannot be read."""
    path = join(folder, CONFIG)
    if not checkout.has(path):
        return None, None
    try:
        data = checkout.data(path)
    except InvalidInput as error:
        return None, error.message.removeprefix(f"{path}: ")
    try:
        return pbtxt.parse(pbtxt.decode(data, Path(path)), Path(path)).message, None
    except InvalidInput as error:
        text = data.decode("utf-8", "replace")
        mark = _PLACEHOLDER.search(text)
        if mark:
            line = text.count("\n", 0, mark.start()) + 1
            return None, f"a template, to be filled in: line {line} has {mark.group()!r}"
        return None, error.message.removeprefix(f"{path}:")


def _source(checkout: Checkout, folder: str) -> tuple[Source, list[Skipped]]:
    """Read the Python files of a model's version folders and beside its configuration."""
    source, faults = Source(), []
    places = [folder, *(join(folder, version) for version in _versions(checkout, folder))]
    for place in places:
        for name in checkout.folders.get(place, ()):
            if not name.endswith(".py"):
                continue
            path = join(place, name)
            try:
                reason = source.read(checkout.text(path))
            except InvalidInput as error:
                reason = error.message.removeprefix(f"{path}: ")
            if reason is not None:
                faults.append(Skipped(path, reason))
    return source, faults


def _backend(config: Message | None, known: str | None) -> str:
    if config is not None:
        if config.HasField("ensemble_scheduling"):
            return "ensemble"
        named = str(config.backend or _PLATFORMS.get(config.platform, config.platform))
        if named:
            return named
    return _FILES.get(known or "", "")


def _complete(config: Message, source: Source, backend: str, *, has_file: bool) -> list[str]:
    """Add what the server would ask the model for; return notes."""
    notes = [] if has_file else ["has no config.pbtxt: the server completes its configuration"]
    if config.input or backend != "python" or not source.inputs:
        return notes
    for place, tensors in ((config.input, source.inputs), (config.output, source.outputs)):
        for tensor in () if place else tensors:
            kind = model_config_pb2.DataType.DESCRIPTOR.values_by_name.get(tensor.datatype)
            entry = place.add(name=tensor.name, data_type=kind.number if kind else 0)
            entry.dims.extend(tensor.dims)
            if tensor.optional and isinstance(entry, model_config_pb2.ModelInput):
                entry.optional = True
    if not config.max_batch_size:
        config.max_batch_size = source.max_batch_size
    return [*notes, "its inputs are those that auto_complete_config of its model.py names"]


def _malformed(config: Message) -> list[str]:
    """Return why no request can be made, whoever reads the configuration."""
    found = []
    if config.max_batch_size < 0:
        found.append(f"max_batch_size is {config.max_batch_size}")
    for number, entry in enumerate(config.input):
        name = repr(entry.name or number)
        if not entry.name or not entry.data_type:
            found.append(f"input {name} has no {'data_type' if entry.name else 'name'}")
        elif not entry.dims or any(size == 0 or size < -1 for size in entry.dims):
            found.append(f"input {name} has dims {list(entry.dims)}: positive numbers, or -1")
    return found


def _problems(
    checkout: Checkout, folder: str, config: Message, backend: str, known: str | None
) -> list[str]:
    """Return what keeps a server from loading a model whose configuration is readable."""
    name = folder.rpartition("/")[2]
    problems = []
    if config.name not in ("", name):
        problems.append(f"its {CONFIG} calls it {config.name!r}, its folder {name!r}")
    if not _SHELL_SAFE.fullmatch(folder):
        problems.append("the Python backend serves from plain ASCII paths without spaces alone")
    if not _versions(checkout, folder):
        lost = " (git keeps no empty folder: commit a .gitkeep in it)" * (backend == "ensemble")
        problems.append(f"it has no version folder such as {folder}/1{lost}")
    elif backend == "python" and known != "model.py" and not config.default_model_filename:
        problems.append("no version folder holds its model.py")
    elif backend not in ("ensemble", "python") and not _holds_files(checkout, folder):
        problems.append("its version folders are empty: a build step has to fetch its model file")
    return problems


def _holds_files(checkout: Checkout, folder: str) -> bool:
    """Return whether a version folder holds more than marks, documents and pictures of a folder."""
    marks = {".gitkeep", ".gitignore", ".keep", "README.md", ".placeholder", "readme.md"}
    for version in _versions(checkout, folder):
        inside = join(folder, version)
        if checkout.below(inside) or set(checkout.folders.get(inside, ())) - marks:
            return True
    return False


def served_files(checkout: Checkout, model: Model) -> list[str]:
    """Return the files that a model is served from: its configuration, and those of its versions."""
    inside = [join(model.folder, version) for version in _versions(checkout, model.folder)]
    found = [join(model.folder, CONFIG)] if checkout.has(join(model.folder, CONFIG)) else []
    return [*found, *(join(folder, n) for folder in inside for n in checkout.folders[folder])]

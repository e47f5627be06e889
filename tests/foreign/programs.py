"""One public program on disk: its sources, its configuration, and each codemod's answer."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from layers.errors import InvalidInput
from layers.features.codemod import Codemod, File
from layers.features.sites import refusals, sites
from layers.triton.pbtxt import decode, parse
from tests.foreign.caught import Caught

_PLACEHOLDER = re.compile(r"\$\{?[A-Za-z_]\w*\}?")


@dataclass(frozen=True)
class Program:
    """A folder with `model.py`; what lies in `helpers/` is put beside it."""

    name: str
    folder: Path
    config: Mapping[str, Any]
    files: Mapping[str, str]  # Python, by path beside model.py

    @property
    def prepare(self) -> Path:
        """Return where a person may have written what the program needs; see `child.prepare`."""
        return self.folder / "prepare_for_test.py"


@dataclass(frozen=True)
class Answer:
    """What one codemod says about one program."""

    codemod: str
    places: Sequence[str]  # "file:line: what" of the places found to change
    reasons: Sequence[str]  # "file:line: why" of those left
    files: Mapping[str, str] = field(default_factory=dict)  # after; empty: unchanged
    complaint: str = ""  # a crash, or a rewrite that is not stable


def load(folder: Path) -> Program:
    """Read a program; a configuration that cannot be read is empty."""
    files = {}
    for path in sorted(folder.rglob("*.py")):
        if path.name == "prepare_for_test.py":
            continue
        relative = path.relative_to(folder)
        name = relative.relative_to("helpers") if relative.parts[0] == "helpers" else relative
        files[name.as_posix()] = path.read_text(errors="surrogateescape")
    return Program(folder.name, folder, _config(folder), files)


def _config(folder: Path) -> dict[str, Any]:
    for name in ("config.pbtxt", "config.pbtxt.template"):
        path = folder / name
        if not path.is_file():
            continue
        text = _PLACEHOLDER.sub("1", decode(path.read_bytes(), path))
        try:
            message = parse(text, path).message
        except InvalidInput:
            return {}
        found: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True)
        _numbers(found)
        return found
    return {}


def _numbers(config: dict[str, Any]) -> None:
    """Write 64-bit integers as the server does, not as protobuf's own JSON."""
    for tensor in (*config.get("input", ()), *config.get("output", ())):
        tensor["dims"] = [int(n) for n in tensor.get("dims", ())]


def answers(program: Program, codemods: Mapping[str, Codemod]) -> list[Answer]:
    """Ask each codemod about all files of the program."""
    return [_answer(program, codemod) for codemod in codemods.values()]


def _answer(program: Program, codemod: Codemod) -> Answer:
    places, reasons, files, complaints = [], [], {}, []
    for path, text in program.files.items():
        file, found, after = _file(program, path, text), [], text
        with Caught() as caught:  # a crash is what this is to find
            found = codemod.find(file)
            after = codemod.apply(file) if sites(found) else text
        if caught.error is not None:
            complaints.append(f"crashed on {path}: {caught.text()}")
            continue
        places += [f"{path}:{site.line}: {site.what}" for site in sites(found)]
        reasons += [f"{path}:{left.line}: {left.reason}" for left in refusals(found)]
        if sites(found):
            files |= {path: after} | _package(codemod)
            complaints += _unstable(codemod, file, after)
    return Answer(codemod.name, places, reasons, files, "; ".join(complaints))


def _unstable(codemod: Codemod, before: File, after: str) -> list[str]:
    """Complain about a rewrite that does nothing, is no Python or is proposed again."""
    if after == before.text:
        return [f"{before.path}: a place was found and nothing changed"]
    try:
        compile(after, before.path, "exec")
    except SyntaxError as error:
        return [f"{before.path}: the rewritten file is not Python: {error}"]
    again = codemod.find(File(before.path, after, before.inputs, before.outputs))
    return [f"{before.path}: proposed again after the rewrite"] if sites(again) else []


def _package(codemod: Codemod) -> dict[str, str]:
    """Return what the rewritten file imports; as it is not built, its Python half answers."""
    package = codemod.package
    files = {} if package is None else package.files()
    return {f"{package.name}/{path}": text.decode() for path, text in files.items() if package}


def _file(program: Program, path: str, text: str) -> File:
    """Return a file as it would lie in a model repository: codemods may look at the place."""
    return File(f"models/m/1/{path}", text, *_declared(program.config))


def _declared(config: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    inputs, outputs = config.get("input", ()), config.get("output", ())
    return (
        {tensor["name"]: tensor.get("data_type", "") for tensor in inputs},
        {tensor["name"]: tensor.get("data_type", "") for tensor in outputs},
    )


def together(program: Program, codemods: Mapping[str, Codemod]) -> dict[str, str]:
    """Return the files after all codemods, one after another, in the order of the table."""
    files = dict(program.files)
    for codemod in codemods.values():
        for path in program.files:
            text = files[path]
            file = _file(program, path, text)
            with Caught():  # told by `answers` already
                if sites(codemod.find(file)):
                    files |= {path: codemod.apply(file)} | _package(codemod)
    return files


def write(program: Program, files: Mapping[str, str], folder: Path) -> None:
    """Lay one version of the program out as the server would find it."""
    shutil.copytree(
        program.folder, folder, ignore=shutil.ignore_patterns("helpers", "prepare_for_test.py")
    )
    helpers = program.folder / "helpers"
    if helpers.is_dir():
        shutil.copytree(helpers, folder, dirs_exist_ok=True)
    for path, text in (program.files | files).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, errors="surrogateescape")


def job(program: Program, versions: Mapping[str, Path], **others: Any) -> str:
    """Return the job of `child.py` as JSON."""
    return json.dumps(
        {
            "config": program.config,
            "sources": list(program.files.values()),
            "prepare": str(program.prepare),
            "versions": {name: str(folder) for name, folder in versions.items()},
            **others,
        }
    )

"""Where a Python model of the stack keeps its code, and whether it reads strings natively."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import libcst as cst
from libcst import matchers as m
from libcst.metadata import MetadataWrapper, PositionProvider

from layers.base import StackView
from layers.profile.profiler import CONVERSION
from layers.triton import pbtxt

UTILS = "triton_python_backend_utils"
_DEFAULT_FILE = "model.py"


@dataclass(frozen=True, slots=True)
class Site:
    """The module of one Python model and where it imports the server's utilities."""

    file: PurePosixPath  # relative to the repository root
    content: bytes
    line: int  # of the import of the utilities, from 1

    @property
    def folder(self) -> PurePosixPath:
        """The version folder, which the server puts on the module path of the model."""
        return self.file.parent


def find(stack: StackView, model: str) -> Site | None:
    """Return the site of `model`, or None where there is nothing to change.

    That is: no Python model of this name, its module cannot be parsed, does not import the
    server's utilities at top level, or replaces their string conversion already.
    Raises InvalidInput for an unreadable config.pbtxt.
    """
    file = module_file(stack, model)
    if file is None:
        return None
    try:
        return _site(file, (stack.root / file).read_bytes())
    except (cst.ParserSyntaxError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _site(file: PurePosixPath, content: bytes) -> Site | None:
    """Return the site in a module; raises what parsers raise, and RecursionError if it is deep."""
    ast.parse(content)  # refuses deep nesting, which would end the process that libcst runs in
    wrapper = MetadataWrapper(cst.parse_module(content))
    statement = utilities_import(wrapper.module)
    if statement is None or _is_replaced(wrapper.module):
        return None
    positions = wrapper.resolve(PositionProvider)
    return Site(file, content, int(positions[statement].start.line))


def module_file(stack: StackView, model: str) -> PurePosixPath | None:
    """Return the module of a Python model's newest version, relative to the root.

    None where there is no such model; symbolic links do not count.
    """
    folder = stack.root / stack.manifest.stack.models / model
    if PurePosixPath(model).name != model or not folder.is_dir():
        return None
    name = _module_name(folder / "config.pbtxt")
    versions = [p for p in folder.iterdir() if p.name.isdecimal() and int(p.name) > 0]
    if name is None or not versions:
        return None
    file = max(versions, key=lambda path: int(path.name)) / name
    links = file.is_symlink() or file.parent.is_symlink() or folder.is_symlink()
    return PurePosixPath(file.relative_to(stack.root)) if file.is_file() and not links else None


def utilities_import(module: cst.Module) -> cst.SimpleStatementLine | None:
    """Return the top-level statement that imports the utilities as a module."""
    for statement in module.body:
        if isinstance(statement, cst.SimpleStatementLine) and utilities_name(statement):
            return statement
    return None


def utilities_name(statement: cst.SimpleStatementLine) -> str | None:
    """Return the name under which `statement` imports the utilities, if it does."""
    for part in statement.body:
        for alias in part.names if isinstance(part, cst.Import) else ():
            if alias.evaluated_name == UTILS:
                return alias.evaluated_alias or UTILS
    return None


def _module_name(config: Path) -> str | None:
    """Return the file name of a Python model's module; None for other backends."""
    if not config.is_file():
        return _DEFAULT_FILE  # the server then guesses the backend by this name
    document = pbtxt.parse(pbtxt.decode(config.read_bytes(), config), config)
    named = document.get("backend") or document.get("platform")
    guessed = not named and document.get("ensemble_scheduling") is None  # by the file's name
    if named != "python" and not guessed:
        return None
    name = str(document.get("default_model_filename") or _DEFAULT_FILE)
    return name if PurePosixPath(name).name == name else None


def _is_replaced(module: cst.Module) -> bool:
    """Whether something is assigned to an attribute of the conversion's name."""
    replacement = m.AssignTarget(target=m.Attribute(attr=m.Name(CONVERSION)))
    return bool(m.findall(module, replacement))

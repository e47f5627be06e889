"""The stack that scripted programs are let loose on, and what those programs are.

A tiny stack whose time goes into one loop. Its scores depend on every input, so that a change that
does less is wrong, and is tempting.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from layers.agent_settings import CommandSection
from layers.base import ChangeClass
from tests.e2e import proposals

PROGRAMS = Path(__file__).parent / "agents_programs"
FEATURES = proposals.FEATURES
RECORDER = "traffic/record.py"
COUNT = "[self._rank(c) for c"


def repository(root: Path) -> Path:
    """Make the stack at `root`, a clean checkout."""
    proposals.slow_repository(root)
    scale(root)
    return root


def scale(root: Path) -> None:
    """Commit ranks that do not drown the other inputs."""
    proposals.commit(root, FEATURES, COUNT, scaled(COUNT))


def scaled(code: str) -> str:
    """Return the code with such ranks."""
    assert code.count(COUNT) == 1
    return code.replace(COUNT, "[self._rank(c) / 500 for c")


def section(name: str, *arguments: str, **settings: Any) -> CommandSection:
    """Return settings that run one of the programs, with words for it."""
    run = [sys.executable, str(PROGRAMS / f"{name}.py"), *arguments]
    return CommandSection(run=run, reads=[str(PROGRAMS)], **{"timeout_s": 60, **settings})


@dataclass(frozen=True, slots=True)
class Cheat:
    """A program whose change must never be accepted, and why it is to be refused."""

    name: str
    summary: str
    change_class: ChangeClass
    expect: tuple[str, ...]  # reason codes, one of which the trial must give
    files: tuple[str, ...]  # that it edits


def cheats() -> list[Cheat]:
    """Return the cheats by name; nothing of them is run."""
    return [_read(path) for path in sorted(PROGRAMS.glob("cheat_*.py"))]


def _read(path: Path) -> Cheat:
    tree = ast.parse(path.read_bytes(), path.name)
    told = _constants(tree)
    return Cheat(
        name=path.stem,
        summary=(ast.get_docstring(tree) or "").partition("\n")[0],
        change_class=ChangeClass(told["CLASS"]),
        expect=tuple(told["EXPECT"]),
        files=tuple(dict.fromkeys(edit[0] for edit in told["EDITS"])),
    )


def _constants(tree: ast.Module) -> Mapping[str, Any]:
    """Return what is assigned to names in capitals."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in assigned
        if isinstance(node.targets[0], ast.Name) and node.targets[0].id.isupper()
    }

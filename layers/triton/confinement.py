"""What a model server under judgement may see of its stack's worktree: all but what judges it."""

from __future__ import annotations

from pathlib import Path

from layers.base import StackView
from layers.manifest import judging_paths
from layers.sandbox.base import Confinement, Limits
from layers.triton.environment import ServerEnvironment


def server_confinement(view: StackView, env: ServerEnvironment, *writable: Path) -> Confinement:
    """Return what the server of a stack sees: its worktree and environment, neither to write to."""
    return Confinement(
        read_only=[view.root, env.root],
        writable=writable,
        limits=Limits.of(view.manifest.sandbox),
        hidden=[view.root / name for name in judging_paths(view.manifest)],
    )

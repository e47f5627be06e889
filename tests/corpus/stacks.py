"""The full-stack cases: edits of `tests/tiny_stack`, judged as patches."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from layers import session
from layers.events import Silent
from layers.evidence import JudgeReport
from layers.judge import JudgeOptions, judge_patch
from layers.trial import calibrate, equivalence
from tests.corpus.cases import StackCase

TINY_STACK = Path(__file__).parents[1] / "tiny_stack"
# Shorter blocks than a run's: the same stations in the same order, less of each.
SHORT = (
    (session, "BLOCK_S", 0.6),
    (session, "SLO_REQUESTS", 200),
    (calibrate, "LAUNCHES", 1),
    (equivalence, "RECORDED", 40),
)


def judge(case: StackCase, folder: Path, seed: int) -> JudgeReport:
    """Judge the patch of one case on a copy of the tiny stack in `folder`."""
    root = repository(folder / "stack")
    patch = patch_of(case, root)
    with _short():
        options = JudgeOptions(out=folder / "out", seed=seed, name=f"{case.name}.diff")
        return judge_patch(root, options, patch, case.change_class, Silent())


def repository(root: Path) -> Path:
    """Copy the tiny stack to `root` and commit it."""
    made = shutil.ignore_patterns("__pycache__", "*.bin", "*.csv")
    shutil.copytree(TINY_STACK, root, ignore=made)
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "The stack")
    return root


def patch_of(case: StackCase, root: Path) -> bytes:
    """Return a case's edits as a git diff; the checkout is clean again afterwards."""
    for path, old, new in case.edits:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text() if old else ""
        if text.count(old) != 1:
            raise ValueError(f"{case.name}: the text to replace is not there once in {path}")
        file.write_text(text.replace(old, new))
    git(root, "add", "--all")
    patch = git(root, "diff", "--cached", "HEAD")
    git(root, "reset", "--quiet", "--hard")
    return patch


def git(root: Path, *arguments: str) -> bytes:
    """Run git in `root` and return what it says."""
    identity = ["-c", "user.name=Serving", "-c", "user.email=serving@example.com"]
    argv = ["git", *identity, *arguments]
    return subprocess.run(argv, cwd=root, check=True, capture_output=True).stdout


@contextmanager
def _short() -> Iterator[None]:
    """Shorten the measurement for as long as it lasts."""
    before = [(module, name, getattr(module, name)) for module, name, _ in SHORT]
    try:
        for module, name, value in SHORT:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)

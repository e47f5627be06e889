"""A stack: one serving repository at one commit, with its manifest.

The checkout itself is only read. All work happens in worktrees in the run's folder, which are
removed at the end; what stays are the branches of committed edits.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Self

from knowledge import yamlfile
from layers.base import Edit, StackView
from layers.errors import InvalidInput, Location, ToolFailed
from layers.manifest import MANIFEST_PATH, Manifest, manifest_file, measured_paths
from layers.repository import builds, git
from layers.sandbox.box import Sandbox

_SHOWN_PATHS = 10
_CODE = {".py", ".pbtxt"}


class Stack:
    """A clean checkout and its manifest; a context manager that removes its worktrees."""

    def __init__(self, root: Path, commit: str, manifest: Manifest) -> None:
        """Take the parts as they are; `open` is what checks them."""
        self.root = root
        self.commit = commit
        self.manifest = manifest
        self._worktrees: list[Path] = []

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return the stack at `path`, the root of a git checkout without local changes.

        Raises InvalidInput: no such folder, not the root of a checkout, no commit, local changes,
        no manifest, or a manifest that is wrong (with line and column).
        """
        root = _checkout_root(path)
        try:
            commit = git.resolve(root, "HEAD")
        except ToolFailed as error:
            raise InvalidInput(
                f"{root} has no commit yet", hint="commit the serving repository first"
            ) from error
        manifest = _manifest(root)
        _check_clean(root)
        return cls(root, commit, manifest)

    @property
    def name(self) -> str:
        """The stack's name from its manifest."""
        return self.manifest.stack.name

    def __enter__(self) -> Self:
        """Return the stack itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the worktrees."""
        self.close()

    def close(self) -> None:
        """Remove the worktrees of this stack."""
        while self._worktrees:
            self.remove_worktree(self._worktrees[-1])

    def worktree(self, commit: str, under: Path) -> Path:
        """Check out `commit` in a new folder below `under` (outside the checkout); return it."""
        full = git.resolve(self.root, commit)
        under = under.resolve()
        under.mkdir(parents=True, exist_ok=True)
        target = _fresh_folder(under, full[:12])
        # A worktree of a killed run may be gone from the disk but not from git's notes.
        git.forget_gone(self.root, under)
        add = ("worktree", "add", "--quiet", "--detach", str(target), full)
        git.git(self.root, *add, timeout_s=git.LONG_S)
        self._worktrees.append(target)
        return target

    def remove_worktree(self, worktree: Path) -> None:
        """Remove one worktree with all that was built in it."""
        self._worktrees = [other for other in self._worktrees if other != worktree]
        if worktree.exists():
            git.remove_worktree(self.root, worktree)
        else:
            git.forget_gone(self.root, worktree)

    def commit_edit(
        self, base_commit: str, branch: str, edit: Edit, under: Path
    ) -> tuple[str, str, Path]:
        """Commit `edit` on top of `base_commit` as `branch`; return commit, patch and worktree.

        The same edit of the same base gives the same commit. The patch is empty when the edit
        changes nothing. Raises InvalidInput for a path that may not be edited, or a branch of
        that name that is not the bot's; nothing is left behind then.
        """
        worktree = self.worktree(base_commit, under)
        try:
            commit, patch = git.commit_edit(worktree, edit)
            git.set_branch(self.root, branch, commit)
        except BaseException:
            self.remove_worktree(worktree)
            raise
        return commit, patch, worktree

    def drop_branch(self, branch: str, commit: str) -> None:
        """Delete the branch of a candidate that was not accepted, if it is still at `commit`."""
        git.drop_branch(self.root, branch, commit)

    def build(self, worktree: Path, env: builds.BuildEnvironment, sandbox: Sandbox) -> None:
        """Build a worktree; its log is `build_log(worktree)`. See `layers.repository.builds.build`.

        Raises InvalidInput for models or traffic that are in Git LFS or in a submodule.
        """
        git.check_whole(worktree, *measured_paths(self.manifest))
        builds.build(worktree, self.manifest, env, build_log(worktree), sandbox)

    def code(self) -> dict[str, str]:
        """Return a digest of each model's own code at the stack's commit, by model.

        Its code is its Python files and configurations: what a layer reads and edits. Weights and
        other data are left out; they change with every training.
        """
        models = self.manifest.stack.models
        found: dict[str, list[str]] = defaultdict(list)
        listed = git.git(self.root, "ls-tree", "-r", "-z", "--full-tree", self.commit)
        for line in listed.split("\0"):
            path = PurePosixPath(line.partition("\t")[2])
            if path.suffix in _CODE and path.is_relative_to(models):
                found[path.relative_to(models).parts[0]].append(line)
        return {model: _digest(lines) for model, lines in found.items()}

    def view(self, worktree: Path, env: builds.BuildEnvironment) -> StackView:
        """Return what the rest of the engine may read of a worktree."""
        return StackView(worktree, git.resolve(worktree, "HEAD"), self.manifest, env.python)


def _digest(lines: Sequence[str]) -> str:
    text = "\0".join(lines).encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()[:16]


def build_log(worktree: Path) -> Path:
    """Return where the build output of a worktree is kept: beside it, so that it outlives it."""
    return worktree.with_name(f"{worktree.name}-build.log")


def _fresh_folder(under: Path, name: str) -> Path:
    number = 1
    while (target := under / f"{name}-{number}").exists() or build_log(target).exists():
        number += 1
    return target


def _checkout_root(path: Path) -> Path:
    root = path.resolve()
    if not root.is_dir():
        raise InvalidInput(f"{path} is not a folder", hint="PATH is a serving repository")
    try:
        top = Path(git.git(root, "rev-parse", "--show-toplevel").removesuffix("\n"))
    except ToolFailed as error:
        raise InvalidInput(
            f"{path} is not a git checkout: {error.message}",
            hint=error.hint or "`git init`, commit the serving repository, then try again",
        ) from error
    if top.resolve() != root:
        raise InvalidInput(
            f"{path} is not the root of its checkout",
            hint=f"the root is {top}; a stack is a repository of its own",
        )
    return root


def _manifest(root: Path) -> Manifest:
    """Return the validated manifest; it must be a tracked plain file."""
    path = manifest_file(root)
    if path.is_symlink() or not path.is_file():
        raise InvalidInput(
            f"there is no {MANIFEST_PATH} in {root}",
            hint=f"run `fvec init {root}`, which writes a first one; "
            "`fvec config validate --schema` prints its schema",
        )
    try:
        manifest = yamlfile.load(path, Manifest)
    except yamlfile.YamlError as error:
        first = Location(error.path, error.line, error.column)
        more = "".join(f"\n{problem}" for problem in error.problems[1:])
        raise InvalidInput(f"{error.message}{more}", at=first, hint=error.hint) from error
    if not git.tracked(root, str(MANIFEST_PATH)):
        raise InvalidInput(f"{MANIFEST_PATH} is not tracked by git", hint="commit the manifest")
    return manifest


def _check_clean(root: Path) -> None:
    changed = git.changed_paths(root)
    if changed:
        shown = ", ".join(changed[:_SHOWN_PATHS])
        more = f" and {len(changed) - _SHOWN_PATHS} more" if len(changed) > _SHOWN_PATHS else ""
        raise InvalidInput(
            f"the checkout {root} has local changes: {shown}{more}",
            hint="commit or stash them; results belong to a commit",
        )

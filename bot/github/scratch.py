"""Throw-away repositories: they see a checkout's objects, and nothing of its settings.

A checkout's own configuration may name proxies, helpers, programs and other addresses, which no
token is to meet. And what comes from outside lands here first: `take_over` lets it into a checkout
once git has checked every object.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from layers.repository import git

# Slips of old versions of git, which many a long history holds and which do no harm.
_FORGIVEN = ("badTimezone", "missingSpaceBeforeDate", "zeroPaddedFilemode")
_CHECKED = (
    ("transfer.fsckObjects", "true"),
    *((f"fetch.fsck.{slip}", "ignore") for slip in _FORGIVEN),
)


@contextmanager
def scratch(root: Path | None = None) -> Iterator[Path]:
    """Yield a new bare repository that borrows the objects of `root`; it is removed afterwards.

    Its parent folder is empty but for it, and goes with it. Raises Missing where there is no git,
    and ToolFailed where `root` is no repository.
    """
    with tempfile.TemporaryDirectory(prefix="fvec-git-") as folder:
        bare = Path(folder).resolve() / "bare.git"
        bare.mkdir()
        git.git(bare, "init", "--quiet", "--bare", "--template=", ".")
        if root is not None:
            _borrow(bare, root)
        yield bare


def take_over(root: Path, bare: Path, *refspecs: str) -> None:
    """Fetch from a scratch repository into `root`; raises ToolFailed for a malformed object."""
    git.git(
        root,
        *("fetch", "--no-tags", "--no-prune", "--no-write-fetch-head"),
        *("--no-recurse-submodules", "--", str(bare), *refspecs),
        env={**local_only(), **as_environment(_CHECKED)},
        timeout_s=git.LONG_S,
    )


def local_only() -> dict[str, str]:
    """Return the environment in which git may read repositories and bundles on this machine."""
    return {"GIT_ALLOW_PROTOCOL": "file"}


def as_environment(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return git's settings as environment variables: in no argument list, and in no file."""
    found = {"GIT_CONFIG_COUNT": str(len(settings))}
    for number, (key, value) in enumerate(settings):
        found |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return found


def _borrow(bare: Path, root: Path) -> None:
    names = ("--git-path", "objects", "--git-path", "shallow")
    objects, shallow = git.git(root, "rev-parse", *names).rstrip("\n").split("\n")
    info = bare / "objects" / "info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "alternates").write_text(f"{(root / objects).resolve()}\n", encoding="utf-8")
    if (root / shallow).is_file():  # where history is cut off, parents are not missed
        shutil.copyfile(root / shallow, bare / "shallow")

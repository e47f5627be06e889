"""The manifest's own command that says whether a stack still serves.

It is asked where a workflow of the repository itself runs, never in the service: it is a program of
the repository, with the network that it needs to look at request counters, and in no sandbox.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bot.jobs import checkouts, measuring
from bot.jobs.context import Home
from layers.repository import git

if TYPE_CHECKING:
    from bot.github.repository import Repository
    from bot.github.transport import Remote

TIMEOUT_S = 120.0


def ask(remote: Remote, work: Path, repository: Repository, argv: Sequence[str]) -> bool | None:
    """Run `argv` in a checkout of the default branch: True where it ends with 0, None where it cannot.

    It gets none of our environment but what programs are found by. Raises GitHubError.
    """
    branch = repository.default_branch()
    mirror = checkouts.fetched(Home(remote, work, repository.full_name), branches=(branch,))
    commit = git.resolve(mirror, checkouts.branch_ref(branch))
    with tempfile.TemporaryDirectory(prefix="fvec-serving-") as folder:
        place = checkouts.check_out(mirror, commit, branch, Path(folder) / "checkout")
        try:
            done = subprocess.run(
                list(argv),
                cwd=place,
                env=measuring.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.returncode == 0

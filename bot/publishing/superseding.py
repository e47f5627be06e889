"""Which open pull requests a new commit makes superfluous: those whose whole change it holds.

What evidence says of its change is a claim. A diff that can be taken out of a commit again is there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from layers.errors import ToolFailed
from layers.repository import git


def held(root: Path, commit: str, diffs: Mapping[int, bytes]) -> set[int]:
    """Return which pull requests' diffs a commit holds, by their numbers.

    The newest is taken out first, and the next one of what is left: a change that stands on another
    was made after it. No branch, working tree or index of `root` is touched.
    """
    found = set()
    with tempfile.TemporaryDirectory(prefix="fvec-held-") as folder:
        own = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        git.git(root, "read-tree", commit, env=own)
        file = Path(folder, "patch.diff")
        for number in sorted(diffs, reverse=True):
            file.write_bytes(diffs[number])
            if _is_taken_out(root, file, own):
                found.add(number)
    return found


def _is_taken_out(root: Path, diff: Path, own: Mapping[str, str]) -> bool:
    """Take a diff out of the index; say whether all of it was there. Else the index stays."""
    # The user's own settings may forgive white space; here they do not.
    strict = ("-c", "apply.ignoreWhitespace=no", "-c", "apply.whitespace=nowarn")
    try:
        git.git(root, *strict, "apply", "--cached", "--reverse", "--", str(diff), env=own)
    except ToolFailed:
        return False
    return True

"""The repository that survival is tried on, and what must be the same after every kill."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[2] / "examples" / "ads-serving"
_UNTRACKED = shutil.ignore_patterns("__pycache__", "*.bin", "*.csv", "*.npz", "*.pt2")
_DATE = "2026-01-01T00:00:00+00:00"


def repository(root: Path) -> Path:
    """Make a repository of one commit out of the example; its commits are always the same."""
    shutil.copytree(EXAMPLE, root, ignore=_UNTRACKED)
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Serve ads")
    return root


def git(root: Path, *arguments: str) -> str:
    """Run git as a person who works on the repository."""
    person = ["-c", "user.name=Serving", "-c", "user.email=serving@example.com"]
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(root.parent), "LC_ALL": "C.UTF-8"}
    env |= {"GIT_AUTHOR_DATE": _DATE, "GIT_COMMITTER_DATE": _DATE}
    done = subprocess.run(
        ["git", *person, *arguments], cwd=root, check=True, capture_output=True, text=True, env=env
    )
    return done.stdout


def outcome(root: Path, out: Path) -> dict[str, Any]:
    """Return all that a run leaves, but for what tells the time: equal for equal results."""
    report = json.loads((out / "run.json").read_text())
    report.pop("wall_s")
    for pull in report["pull_requests"]:
        pull["body"] = str(Path(pull["body"]).relative_to(out))
    branches = git(root, "for-each-ref", "--format=%(refname) %(objectname)", "refs/heads")
    return {
        "report": report,
        "branches": branches.splitlines(),
        "commits": sorted(git(root, "rev-list", "--all").split()),
        "moves": {name: _moves(root, name) for name in _heads(root)},
        "worktrees": git(root, "worktree", "list", "--porcelain").count("worktree "),
        "status": git(root, "status", "--porcelain"),
        "forge": _forge(out / "forge"),
    }


def _heads(root: Path) -> list[str]:
    return git(root, "for-each-ref", "--format=%(refname)", "refs/heads/fvec").split()


def _moves(root: Path, branch: str) -> int:
    """Return how often a branch was pointed at something, from its log."""
    return len(git(root, "reflog", "show", branch).splitlines())


def _forge(forge: Path) -> dict[str, str]:
    """Return every file of the forge by its path; of `meta.json` and the index all but the dates."""
    found = {}
    for path in sorted(p for p in forge.rglob("*") if p.is_file() and p.name != ".lock"):
        text = path.read_bytes().decode("utf-8", "replace")
        if path.name == "meta.json":
            meta = json.loads(text)
            touched = meta.pop("updated") != meta.pop("created")
            text = json.dumps({**meta, "touched again": touched})
        elif path.name == "index.md":
            text = "\n".join(line.rpartition(" | ")[0] for line in text.splitlines())
        found[str(path.relative_to(forge))] = text
    return found

"""A checkout that fetches from the fake GitHub and pushes to it, as the bot does."""

import subprocess
from pathlib import Path

from bot.github.auth import TokenCredentials
from bot.github.transport import Remote
from layers.base import Edit
from layers.repository import git
from tests.github.fake_github import FakeGitHub


def remote_of(fake: FakeGitHub, token: str = "") -> Remote:
    """The repository of the fake, as the bot unless another token is given."""
    return Remote(fake.git_url, TokenCredentials(token or fake.token, login=fake.login))


def checkout_of(remote: Remote, root: Path, *branches: str) -> Path:
    """A checkout of main, with local branches of the same names as those at GitHub."""
    root.mkdir(parents=True)
    git.git(root, "init", "--quiet", "--initial-branch=main")
    remote.fetch(
        root, *(f"+refs/heads/{name}:refs/remotes/origin/{name}" for name in ("main", *branches))
    )
    for name in ("main", *branches):
        git.git(root, "update-ref", f"refs/heads/{name}", f"refs/remotes/origin/{name}")
    git.git(root, "reset", "--quiet", "--hard")
    return root


def commit(root: Path, files: dict[str, str | None], parent: str = "HEAD") -> str:
    """Commit files on top of a commit, as the bot does; no branch has it."""
    worktree = root.with_name(f"{root.name}-work")
    git.git(root, "worktree", "add", "--quiet", "--detach", str(worktree), parent)
    try:
        contents = {
            name: text.encode() if text is not None else None for name, text in files.items()
        }
        made, _ = git.commit_edit(worktree, Edit(contents, "Change a file", "Because."))
    finally:
        git.git(root, "worktree", "remove", "--force", str(worktree))
    return made


def plain_git(root: Path, *arguments: str, login: str = "maintainer") -> str:
    """Run git as a person does; return its stdout."""
    who = ["-c", f"user.name={login}", "-c", f"user.email={login}@example.com"]
    done = subprocess.run(
        ["git", *who, *arguments], cwd=root, check=True, capture_output=True, text=True
    )
    return done.stdout.rstrip("\n")

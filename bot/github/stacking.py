"""What follows for a pull request when the one that it stands on is merged.

Its evidence was measured on the head of that one. Where the base branch came to hold just those
files, the evidence is about what is there, and the pull request goes to the base branch from then
on; where something else was merged, its check says so and a person decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bot.render import check as checks
from bot.render import publication as rendering
from layers.gates import paths as paths_gate
from layers.manifest import MANIFEST_PATH, Manifest
from layers.repository import git

if TYPE_CHECKING:
    from bot.github.archive import Publication
    from bot.github.forge import GitHubForge
    from bot.github.replies import Pull

MOST_HISTORY = 500  # commits of the base branch that are looked through
OWN = "fvec/"


@dataclass(frozen=True, slots=True)
class Restacked:
    """A stacked pull request whose base was merged, and what followed; `base` is where it goes."""

    pull: Pull
    publication: Publication
    base: str
    followed: Literal["retargeted", "moved"]


def restack(root: Path, forge: GitHubForge) -> list[Restacked]:
    """Look after every open pull request of ours that stood on one that was merged since.

    `root` is a checkout, whose branches stay as they are. Done once for each; raises GitHubError.
    """
    found = []
    for pull in forge.repository.open_pulls():
        publication = forge.archive.publication(pull.branch)
        if publication is None or publication.base_merged is not None:
            continue
        edited = pull.head_sha != publication.commit
        if edited or not publication.base.startswith(OWN) or not forge.is_ours(pull):
            continue
        below = next(iter(forge.repository.pulls_of(publication.base)), None)
        if below is not None and below.merged:
            found.append(_restacked(root, forge, pull, publication, below.base))
    return found


def _restacked(
    root: Path, forge: GitHubForge, pull: Pull, publication: Publication, base: str
) -> Restacked:
    """Let a pull request go to `base`, which its own base was merged to, or say why not."""
    head = forge.fetched(root, base)
    forge.fetched(root, pull.branch)  # has the commit that it was measured on
    measured = tree_of(root, publication.base_commit)
    history = trees_of(root, head) if head is not None else []
    followed: Literal["retargeted", "moved"] = "retargeted" if measured in history else "moved"
    if followed == "retargeted":
        forge.repository.update_pull(pull.number, base=base)
        if head is not None and serves_otherwise(
            root, forge.manifest, publication.base_commit, head
        ):
            stale = checks.stale(publication.base_commit, base, head)
            forge.check(publication.commit, stale)
    else:
        check = rendering.base_merged_otherwise(
            publication.base, publication.base_commit, head or ""
        )
        forge.check(publication.commit, check)
    forge.archive.save_publication(
        publication.model_copy(update={"base_merged": followed}),
        f"{pull.branch}: its base was merged ({followed})",
    )
    return Restacked(pull, publication, base, followed)


def serves_otherwise(root: Path, manifest: Manifest, measured: str, now: str) -> bool:
    """Say whether two commits differ in what is served: models, what builds them, environment.

    Both commits have to be in `root`.
    """
    told = git.git(root, "diff", "--name-only", "--no-renames", "-z", measured, now, "--")
    own = {str(MANIFEST_PATH), manifest.stack.requirements}
    return any(
        name in own or paths_gate.not_exercised([name], manifest) is None
        for name in told.split("\0")
        if name
    )


def tree_of(root: Path, commit: str) -> str:
    """Return the tree of a commit: equal for equal files."""
    return git.git(root, "rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}").strip()


def trees_of(root: Path, commit: str) -> list[str]:
    """Return the trees of a branch's last commits, newest first, merged branches left out."""
    told = git.git(
        root, "log", "--first-parent", f"--max-count={MOST_HISTORY}", "--format=%T", commit, "--"
    )
    return told.split()

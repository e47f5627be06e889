"""One pull request as a job sees it: its pinned head, its difference, the manifest that rules it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bot.github.archive import folder_of
from bot.jobs import checkouts, manifests
from bot.jobs.context import Refusal, Superseded

if TYPE_CHECKING:
    from bot.github.replies import Pull
    from bot.github.repository import Repository
    from bot.jobs.context import Context
    from bot.jobs.measuring import Measurement
    from layers.manifest import Manifest

OUR_BRANCHES = "fvec/"


@dataclass(frozen=True, slots=True)
class Subject:
    """What is judged of a pull request, and by what measurement.

    `base` is the commit that it is measured on, `patch` the diff that the report must be about,
    `folder` where its reports are kept on the evidence branch. `claimed`: it is one of ours, whose
    claim is at stake; `edited`: with commits that we did not push;
    `fork`: its head is in another repository.
    """

    wanted: Measurement
    mirror: Path
    branch: str  # that the checkout has
    base: str
    patch: bytes
    folder: str
    claimed: bool
    edited: bool = False
    fork: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """A pull request against where it parted from its base."""

    mirror: Path
    base: str
    patch: bytes


def pinned(context: Context) -> Pull:
    """Return the job's pull request at the head that was pinned.

    Raises Superseded where the head is another by now, or the pull request is closed.
    """
    number, sha = context.spec.number, context.spec.sha
    if number is None or sha is None:
        raise Refusal("no pull request, or no commit of it, is named")
    pull = context.repository.pull(number)
    if pull.state != "open":
        raise Superseded(f"#{number} is closed")
    if pull.head_sha != sha:
        told = f"the head of #{number} moved from {sha[:10]} to {pull.head_sha[:10]}"
        raise Superseded(told)
    return pull


def is_inside(pull: Pull, repository: Repository) -> bool:
    """Say whether the head of a pull request is in this repository, not in a fork."""
    return (pull.head_repository or "").lower() == repository.full_name.lower()


def is_ours(pull: Pull, repository: Repository) -> bool:
    """Say whether we opened a pull request, from a branch of ours in the same repository."""
    by_us = pull.author.lower() == repository.login.lower()
    return is_inside(pull, repository) and by_us and pull.branch.startswith(OUR_BRANCHES)


def folder_for(pull: Pull, repository: Repository) -> str:
    """Return where on the evidence branch the reports about a pull request are kept."""
    return folder_of(pull.branch) if is_ours(pull, repository) else f"judged/{pull.number}"


def base_moved(
    context: Context, mirror: Path, pull: Pull, measured: str, manifest: Manifest
) -> str | None:
    """Return where the base is now, if that serves something else than the commit `measured`.

    The mirror has the base. Raises GitHubError.
    """
    now = checkouts.resolved(mirror, checkouts.branch_ref(pull.base)) or ""
    if now == measured:
        return None
    if checkouts.resolved(mirror, measured) is None:
        # No branch has it by now, but the head of the pull request was built on it.
        checkouts.fetched(context.home, pull=pull.number)
    gone = checkouts.resolved(mirror, measured) is None
    paths = manifests.served_paths(manifest)
    return now if gone or checkouts.changed(mirror, measured, now, *paths) else None


def difference(context: Context, pull: Pull) -> Difference:
    """Fetch the head of a pull request and return its difference.

    What is measured is checked out at the commit where it parted from its base, in the base
    repository: nobody else's commit ever is. Raises Superseded, InvalidInput and GitHubError.
    """
    loaded = manifests.needed(context.repository)
    branches = tuple(dict.fromkeys((pull.base, loaded.branch)))
    mirror = checkouts.fetched(context.home, branches=branches, pull=pull.number)
    head = checkouts.resolved(mirror, checkouts.pull_ref(pull.number))
    if head != pull.head_sha:
        raise Superseded(f"the head of #{pull.number} moved while it was fetched")
    base = checkouts.parted(mirror, checkouts.branch_ref(pull.base), head)
    manifests.check_base(mirror, base, loaded)
    return Difference(mirror, base, checkouts.patch(mirror, base, head))

"""A base moved: whose evidence is now about something else, and whose is not.

Evidence belongs to the commit that it was measured on. Where the base of a pull request of ours has
moved in what is served, its check run turns neutral and it gets a label; a verdict that was not
`accepted` stays as it is. Where the base is again what was measured, the verdict comes back. What
counts are files: a base that was merged and squashed into another branch is there still.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.github.archive import EvidenceBranch
from bot.github.errors import TRANSIENT
from bot.github.repository import STALE
from bot.jobs import checkouts, manifests, records
from bot.jobs.context import JobResult
from bot.jobs.judging import set_check
from bot.jobs.pulls import base_moved, folder_for, is_ours
from bot.render import check
from knowledge.yamlfile import YamlError
from layers.errors import FvecError
from layers.redact import redact

if TYPE_CHECKING:
    from pathlib import Path

    from bot.github.archive import Publication
    from bot.github.replies import Pull
    from bot.jobs.context import Context
    from layers.manifest import Manifest


def perform(context: Context) -> JobResult:
    """Mark every open pull request of ours; see the module. Raises InvalidInput and GitHubError."""
    loaded = manifests.load(context.repository)
    archive = EvidenceBranch(context.repository)
    known = [
        (pull, publication)
        for pull in context.repository.open_pulls()
        if is_ours(pull, context.repository)
        and (publication := archive.publication(pull.branch)) is not None
        and publication.commit == pull.head_sha  # else a person's commits are on it
    ]
    if loaded is None or not known:
        return JobResult("done", "no pull request has evidence that could be stale", shown=False)
    bases = tuple(dict.fromkeys(pull.base for pull, _ in known))
    mirror = checkouts.fetched(context.home, branches=bases)
    stale = [
        pull
        for pull, publication in known
        if _marked(context, pull, publication, mirror, loaded.manifest)
    ]
    told = ", ".join(f"#{pull.number}" for pull in stale)
    return JobResult("done", f"the base has moved under {told}" if told else "all are current")


def beside(context: Context) -> None:
    """Do the same beside another job, which goes on where it is not possible.

    Raises RateLimited and Unavailable.
    """
    try:
        perform(context)
    except TRANSIENT:
        raise
    except (FvecError, YamlError) as error:
        context.events.note(f"not looked at whose evidence is stale: {redact(error.message)}")


def _marked(
    context: Context, pull: Pull, publication: Publication, mirror: Path, manifest: Manifest
) -> bool:
    """Bring check run and label of one pull request up to date; say whether it is stale."""
    measured = publication.base_commit
    now = base_moved(context, mirror, pull, measured, manifest)
    verdict, reason = _last_verdict(context, pull)
    if now is not None:
        if verdict == "accepted":
            told = check.stale(measured, pull.base, now)
            set_check(context.repository, pull.head_sha, told)
        context.repository.add_labels(pull.number, [STALE])
    elif STALE in pull.labels:
        set_check(context.repository, pull.head_sha, check.current(measured, verdict, reason))
        context.repository.remove_label(pull.number, STALE)
    return now is not None


def _last_verdict(context: Context, pull: Pull) -> tuple[str, str]:
    """Return verdict and reason that hold for the head of a pull request."""
    folder = folder_for(pull, context.repository)
    history = records.history(EvidenceBranch(context.repository), folder)
    last = next((r for r in history.reports if r.commit == pull.head_sha), None)
    if last is None or last.verdict not in check.CONCLUSIONS:
        return "accepted", "gain_confirmed"
    return last.verdict, last.reason

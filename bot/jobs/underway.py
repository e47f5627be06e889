"""What people see while a job measures: a reaction to who asked, and a check run in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.render import check
from bot.wake.jobs import MEASURING

if TYPE_CHECKING:
    from bot.jobs.context import Context

TITLE = "Being measured"
SUMMARY = "This commit is being measured. The verdict follows here."
_ENDED = "the measuring was ended before there was anything to report"
_HINT = "ask again; the log of the run says who or what ended it"


def begin(context: Context, address: str = "") -> None:
    """Show that a job is measured from now on; `address` is the page to follow it on.

    A job that measures nothing, or that no commit is pinned for, is not shown. Raises GitHubError.
    """
    spec = context.spec
    if spec.kind not in MEASURING:
        return
    if spec.comment_id is not None:
        context.repository.react(spec.comment_id, "eyes")
    if spec.sha is not None:
        context.repository.check_run(
            spec.sha,
            check.NAME,
            _external_id(context),
            status="in_progress",
            conclusion=None,
            title=TITLE,
            summary=SUMMARY,
            details_url=address or None,
        )


def drop(context: Context, address: str | None = None) -> None:
    """Complete the check run that `begin` set in progress with this `address`; None: with any.

    One that says something by now, or is in progress for a later job, stays. Raises GitHubError.
    """
    sha, repository = context.spec.sha, context.repository
    if sha is None:
        return
    there = repository.check_run_exists(sha, check.NAME, _external_id(context))
    if there is None or there.status != "in_progress":
        return
    if address is not None and there.details_url != address:
        return
    told = check.broken(_ENDED, _HINT)
    repository.check_run(
        sha,
        check.NAME,
        _external_id(context),
        status="completed",
        conclusion=told.conclusion,
        title=told.title,
        summary=told.summary,
    )


def _external_id(context: Context) -> str:
    """Return what tells the check run of a pull request's head from that of an analysis."""
    return check.VERDICT if context.spec.kind in ("rerun", "judge") else check.ANALYSIS

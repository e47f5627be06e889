"""`/fvec judge`: anybody's pull request, held against the gates at the commit that was pinned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.jobs.measuring import PATCH, Measurement
from bot.jobs.pulls import Subject, difference, folder_for, is_inside, is_ours, pinned

if TYPE_CHECKING:
    from bot.jobs.context import Context


def prepare(context: Context) -> Subject:
    """Return what is to be judged.

    Raises Superseded, Refusal, InvalidInput and GitHubError.
    """
    pull = pinned(context)
    found = difference(context, pull)
    asked = context.spec.change_class
    wanted = Measurement(
        "judge",
        found.base,
        change_class=str(asked) if asked else None,
        inputs={PATCH: found.patch},
    )
    return Subject(
        wanted,
        found.mirror,
        pull.base,
        found.base,
        found.patch,
        folder_for(pull, context.repository),
        claimed=is_ours(pull, context.repository),
        fork=not is_inside(pull, context.repository),
    )

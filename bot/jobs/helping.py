"""`/fvec help`, and the answer to a command that is refused: one comment, edited in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bot.jobs.context import JobResult
from bot.render import comment

if TYPE_CHECKING:
    from bot.github.repository import Repository
    from bot.jobs.context import Context


def perform(context: Context) -> JobResult:
    """Say the commands where they were asked for."""
    number = context.spec.number
    if number is not None:
        context.repository.tell(number, comment.HELP, comment.help_text())
    return JobResult("done", "the commands were listed", shown=False)


def refuse(repository: Repository, number: int | None, comment_id: int | None, why: str) -> None:
    """Tell the person who gave a command that it is refused, and why. Raises GitHubError."""
    if comment_id is not None:
        repository.react(comment_id, "confused")
    if number is not None:
        repository.tell(number, comment.HELP, comment.help_text(why))

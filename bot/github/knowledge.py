"""Publication of `fvec/knowledge`: what runs learned, in a pull request of its own.

    the branch as it is at GitHub    the ground: what people and other runs committed there
    the commits that it lacks        what they taught is merged into the cards there, in place
    pushed with a lease              somebody was faster: all of it once more
    pull request                     found by the branch, else opened; closed means no

Commits of people are never rewritten. What no card could take lies beside the cards, and both sides
stand in the body of the pull request.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bot.github.commits import MOST_COMMITS, check_branch
from bot.github.lessons import REFERENCE, Desk, are_plain, described, lessons_of, teach
from bot.github.repository import marker
from bot.github.scratch import scratch, take_over
from bot.github.transport import Moved
from bot.render import knowledge_pull as rendering
from layers.errors import InvalidInput, ToolFailed
from layers.loop import learning
from layers.loop.learning import KNOWLEDGE_BRANCH
from layers.repository import git
from layers.repository.stack import Stack

if TYPE_CHECKING:
    from bot.github.repository import Repository
    from bot.github.transport import Remote
    from bot.render.knowledge_pull import Conflict
    from layers.evidence import RunReport
    from layers.manifest import BotSection

ATTEMPTS = 5  # others may be faster; each is one push
KEY = "knowledge"  # of the marker

KnowledgeState = Literal["nothing", "opened", "updated", "unchanged", "closed", "merged", "left"]


@dataclass(frozen=True, slots=True)
class PublishedKnowledge:
    """What became of what was learned.

    nothing      there is nothing to publish
    opened, updated, unchanged    the pull request
    closed       a person closed it: the branch holds what was learned, nothing else is done
    merged       the default branch has all of it
    left         a person committed to the local branch and did not push: nothing was done, see `why`
    """

    state: KnowledgeState
    commit: str | None = None  # of the branch at GitHub
    number: int | None = None
    url: str = ""
    conflicts: tuple[Conflict, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Made:
    """The branch as it is at GitHub now, and what its pull request should say; None: nothing."""

    commit: str | None
    is_new: bool
    title: str
    body: str | None
    conflicts: tuple[Conflict, ...]
    bot: BotSection


def publish_knowledge(
    root: Path, remote: Remote, repository: Repository, base: str, report: RunReport
) -> PublishedKnowledge:
    """Publish the local branch `fvec/knowledge` of the checkout at `root`, and see to its pull request.

    `base` is the name of the default branch; `report` is of the run that is published. May be done
    again at any time. The local branch moves to what was merged, before it is pushed: what was
    learned is always on one of the two. Raises Moved when others pushed faster five times;
    PushRefused and other kinds of GitHubError; InvalidInput for a branch that the bot did not make,
    commits on it that are no refined cards, and a base without a manifest.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            made = _pushed(root, remote, base, report)
            break
        except Moved:
            continue
    else:
        made = _pushed(root, remote, base, report)
    return made if isinstance(made, PublishedKnowledge) else _pull_request(repository, base, made)


def _pushed(root: Path, remote: Remote, base: str, report: RunReport) -> _Made | PublishedKnowledge:
    """Bring the branch at GitHub up to date, once; Moved where somebody was faster."""
    with _desk(root, remote, base) as desk:
        local = git.tip(root, KNOWLEDGE_BRANCH)
        commits = _unpublished(desk, root, local, base)
        foreign = next((commit for commit, email in commits if email != git.BOT_EMAIL), None)
        if foreign is not None:
            return PublishedKnowledge("left", desk.there, why=_why_left(foreign))
        tip = desk.there
        if local is not None and commits:
            tip = _merged(desk, local, [commit for commit, _ in commits])
            if tip is not None:
                _move_local(root, desk, local, tip)
        if tip is None:
            return PublishedKnowledge("nothing")
        made = _described(desk, tip, report)
        if tip != desk.there:
            remote.push(desk.bare, KNOWLEDGE_BRANCH, tip, expected=desk.there)
        return made


@contextmanager
def _desk(root: Path, remote: Remote, base: str) -> Iterator[Desk]:
    """Fetch base and branch into a throw-away repository, and check the base out there."""
    with scratch(root) as bare:
        branches = [base] if remote.head(KNOWLEDGE_BRANCH) is None else [base, KNOWLEDGE_BRANCH]
        remote.fetch(bare, *(f"+refs/heads/{name}:refs/heads/{name}" for name in branches))
        checkout = bare.with_name("checkout")
        git.git(
            bare,
            *("worktree", "add", "--quiet", "--detach", str(checkout), f"refs/heads/{base}"),
            env=git.POINTERS,  # cards alone are read
            timeout_s=git.LONG_S,
        )
        with Stack.open(checkout) as stack:
            yield Desk(bare, stack, bare.with_name("out"), git.tip(bare, KNOWLEDGE_BRANCH))


def _unpublished(desk: Desk, root: Path, local: str | None, base: str) -> list[tuple[str, str]]:
    """Return the commits that only the local branch has, oldest first, with their committers."""
    if local is None:
        return []
    known = [f"refs/heads/{base}", *([desk.there] if desk.there else []), *_head(root)]
    told = git.git(
        desk.bare,
        *("rev-list", "--reverse", "--topo-order", f"--max-count={MOST_COMMITS + 1}"),
        *("--no-commit-header", "--format=%H %ce", local, "--not", *known, "--"),
    )
    commits = [line.partition(" ") for line in told.splitlines()]
    if len(commits) > MOST_COMMITS:
        raise InvalidInput(
            f"the branch {KNOWLEDGE_BRANCH} has more than {MOST_COMMITS} commits to publish",
            hint=f"look at them, then `git push origin {KNOWLEDGE_BRANCH}`",
        )
    return [(commit, email) for commit, _, email in commits]


def _head(root: Path) -> list[str]:
    """Return the commit that is checked out, whose history is the stack's; [] without one."""
    try:
        return [git.resolve(root, "HEAD")]
    except ToolFailed:
        return []


def _merged(desk: Desk, local: str, commits: list[str]) -> str | None:
    """Return the tip that has what the branch at GitHub has, and what `commits` taught.

    That is the local tip where it stands on the right ground already. Else the branch of the desk
    goes on from its own tip, or from the base once that has all of it.
    """
    parted = git.resolve(desk.bare, f"{commits[0]}^")
    check_branch(desk.bare, parted, local)
    if desk.there is not None:
        _check_is_ours(desk.bare, desk.there)
    ground = learning.knowledge_tip(desk.stack) or desk.stack.commit
    lessons = {commit: lessons_of(desk, commit) for commit in commits}
    if parted == ground and all(are_plain(desk, *taught) for taught in lessons.items()):
        git.git(desk.bare, "update-ref", REFERENCE, local)
    else:
        for commit, taught in lessons.items():
            teach(desk, commit, taught)
    return git.tip(desk.bare, KNOWLEDGE_BRANCH)


def _check_is_ours(bare: Path, there: str) -> None:
    """Refuse to push to a branch that somebody else made, as `layers.loop.learning` does locally."""
    ours = (f"--committer={git.BOT_EMAIL}", "--fixed-strings", "-1")
    if not git.git(bare, "rev-list", *ours, there):
        raise InvalidInput(
            f"the branch {KNOWLEDGE_BRANCH} exists at GitHub and the bot never committed to it",
            hint="rename it: the bot keeps what it learned on a branch of that name",
        )


def _move_local(root: Path, desk: Desk, local: str, tip: str) -> None:
    """Move the local branch to what was merged; Moved where another process did meanwhile."""
    if tip == local:
        return
    take_over(root, desk.bare, REFERENCE)
    if git.tip(root, KNOWLEDGE_BRANCH) != local:
        raise Moved(
            f"the local branch {KNOWLEDGE_BRANCH} moved meanwhile", hint="publish once more"
        )
    git.move_branch(root, KNOWLEDGE_BRANCH, tip, local)


def _described(desk: Desk, tip: str, report: RunReport) -> _Made:
    """Say what the pull request is to say, by what the branch and its base hold."""
    manifest = desk.stack.manifest
    found = described(desk)
    title, body, conflicts = "", None, list[rendering.Conflict]()
    if found is not None:
        learned, conflicts = found
        title = rendering.headline(learned, conflicts)
        text = rendering.render(learned, conflicts, report.knowledge.problems, owner=manifest.owner)
        body = f"{marker(KEY)}\n{text}"
    return _Made(tip, tip != desk.there, title, body, tuple(conflicts), manifest.bot)


def _pull_request(repository: Repository, base: str, made: _Made) -> PublishedKnowledge:
    """Open the pull request, or bring it up to date; a title that a person gave stays."""
    if made.body is None:
        return PublishedKnowledge("merged", made.commit)
    pulls = repository.pulls_of(KNOWLEDGE_BRANCH)
    there = next((pull for pull in pulls if pull.state == "open"), None)
    state: KnowledgeState
    if there is not None:
        after = there
        if there.author.lower() == repository.login.lower():
            after = repository.update_pull(there.number, body=made.body)
            if absent := [name for name in made.bot.labels if name not in there.labels]:
                repository.add_labels(there.number, absent)
        state = "updated" if made.is_new or after.body != there.body else "unchanged"
    elif pulls and not pulls[0].merged:
        after, state = pulls[0], "closed"
    else:
        draft = made.bot.draft
        after = repository.create_pull(KNOWLEDGE_BRANCH, base, made.title, made.body, draft=draft)
        repository.add_labels(after.number, made.bot.labels)
        state = "opened"
    return PublishedKnowledge(state, made.commit, after.number, after.url, made.conflicts)


def _why_left(commit: str) -> str:
    return (
        f"commit {commit[:12]} on the local branch {KNOWLEDGE_BRANCH} is a person's: push the branch, "
        "then publish again"
    )

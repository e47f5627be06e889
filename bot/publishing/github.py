"""A finished run's results, published as pull requests at GitHub.

    read and check (`bot.publishing.claims`) -> for each pull request, in the order in which they stack:
        evidence to its branch -> push -> pull request -> those it follows -> check run -> state

Every step can be repeated: killed anywhere and done again, there is one branch, one pull request,
one comment of a kind and one check run. Nothing leaves before all of the results are checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bot.forge.base import Opened, PullRequest
from bot.github.archive import (
    MOST_ANNOUNCED,
    MOST_TITLES,
    Publication,
    folder_of,
    known_commits,
    publication_file,
    with_pushed,
)
from bot.github.forge import PULL, GitHubForge, Standing
from bot.github.repository import STALE, marker
from bot.github.stacking import Restacked, restack, serves_otherwise
from bot.github.transport import Moved
from bot.publishing import claims, material, superseding
from bot.publishing.claims import CHANGE_BRANCH, Claim, Claims
from bot.publishing.material import Material
from bot.render import check as checks
from bot.render import publication as rendering
from bot.render import pull_request
from bot.render.again import PATCH, Kept
from bot.render.publication import Ties
from layers.errors import InvalidInput, ToolFailed
from layers.evidence import PullRequestRecord, RunReport, changes_of
from layers.gates import paths as paths_gate
from layers.repository import git

if TYPE_CHECKING:
    from bot.github.replies import Pull

Kind = Literal[
    "opened", "updated", "unchanged", "edited", "closed", "merged", "superseded", "awaiting"
]
UP_TO_DATE = frozenset({"opened", "updated", "unchanged"})
WHY: dict[str, str] = {
    "edited": "somebody else committed to its branch: left to them",
    "closed": "it was closed without merging, which means no",
    "merged": "it is merged",
    "superseded": "a newer pull request has its changes",
}
UNCHECKED = "without a check run: the token may not set one, as no personal token may"


@dataclass(frozen=True, slots=True)
class Published:
    """What became of one pull request; `branch` and `number` are GitHub's, `url` is for people."""

    kind: Kind
    branch: str
    title: str
    base: str
    number: int | None = None
    url: str | None = None
    iterations: tuple[int, ...] = ()  # of the run; none where another pull request led to it
    detail: str = ""  # why, in one line
    no_room: bool = False  # it waits since as many are open as may be


@dataclass(frozen=True, slots=True)
class Base:
    """Where a pull request goes: a branch at GitHub, and how it stands to what was measured."""

    branch: str
    stacked_on: int | None = None
    moved_to: str | None = None  # its commit, where that serves something else than was measured


@dataclass(frozen=True, slots=True)
class Waits:
    """Why a pull request cannot be opened now, in one line; `no_room`: too many are open."""

    why: str
    no_room: bool = False


def publish_results(
    results: Path, root: Path, forge: GitHubForge, *, recreate: bool | str = False
) -> list[Published]:
    """Publish what a run left in the folder `results`; return what became of each pull request.

    `root` is a checkout that has the run's commits; its branches stay as they are. `recreate`
    starts over what a person closed or edited: all of it, or the pull request from the branch at
    GitHub that it names. Raises InvalidInput, before anything of it leaves,
    for results that do not hold together or do not fit the repository, and GitHubError; what was
    published until then is found again by the next call.
    """
    found = claims.read(results)
    claims.check_commits(found, root)
    if found.pulls:
        _check_paths(found, root, forge)
        found = claims.corrected(found, root, forge.manifest.owner)
    published = [_followed(one) for one in restack(root, forge)]
    desk = _Desk(found, root, forge, recreate)
    for claim in found.pulls:
        published += desk.publish(claim)
    return published


def recorded(report: RunReport, published: Sequence[Published]) -> RunReport:
    """Return a run's report with its pull requests at GitHub beside the local ones."""
    kept = [pull for pull in report.pull_requests if pull.forge != "github"]
    kept += [
        PullRequestRecord(
            forge="github",
            number=one.number,
            branch=one.branch,
            base=one.base,
            title=one.title,
            body=one.url or "",
            iterations=list(one.iterations),
        )
        for one in published
        if one.number is not None and one.iterations
    ]
    return report.model_copy(update={"pull_requests": kept})


def _check_paths(found: Claims, root: Path, forge: GitHubForge) -> None:
    """Refuse a change to what judges it, by the manifest that the repository's owners merged."""
    manifest = forge.manifest
    protected = paths_gate.protected_files(manifest)
    for claim in found.pulls:
        files = claims.changed_files(root, claim)
        gate = paths_gate.touched(files, protected, manifest.stack.requirements)
        if gate is not None:
            raise InvalidInput(
                f"{claim.branch} cannot be published: {gate.reason}: {gate.detail}",
                hint="no change of the bot may touch what judges it",
            )


def _followed(one: Restacked) -> Published:
    """Return what became of a stacked pull request whose base was merged."""
    if one.followed == "retargeted":
        kind: Kind = "updated"
        told = f"{one.publication.base} was merged as it was measured: goes to {one.base} now"
    else:
        kind = "unchanged"
        told = f"{one.publication.base} was merged otherwise than it was measured"
    pull = one.pull
    return Published(kind, pull.branch, pull.title, one.base, pull.number, pull.url, detail=told)


@dataclass
class _Desk:
    """Publishes the pull requests of one run, each on top of what became of those before."""

    found: Claims
    root: Path
    forge: GitHubForge
    recreate: bool | str
    done: dict[str, Published] = field(default_factory=dict)  # by the run's branch

    def publish(self, claim: Claim) -> list[Published]:
        """Return what became of a pull request, and of those that it supersedes."""
        recreate = self._starts_over(claim)
        standing = self.forge.standing(claim.branch, claim.commit, recreate=recreate)
        became, *others = self._became(claim, standing)
        self.done[claim.branch] = became
        return [became, *others]

    def _became(self, claim: Claim, standing: Standing) -> list[Published]:
        kind = standing.kind
        if kind != "new" and kind != "open":  # what a person did, or we at a person's wish
            if kind == "edited" and standing.pushed != claim.commit:
                self.forge.tell_edited(standing)
            return [_told(kind, standing, claim, detail=WHY[kind])]
        if standing.complete(claim.commit, self._run_id):
            return [_told("unchanged", standing, claim)]
        base = self._base(claim)
        opened = self._open_changes()
        older = self._older(claim, standing, opened)
        if isinstance(base, Base) and standing.kind == "new":
            # Neither what this one takes the place of counts, nor what it is made anew for.
            anew = sum(pull.number == standing.recreates for pull in opened)
            base = self._room(len(opened) - len(older) - anew) or base
        if isinstance(base, Waits):
            waiting = _told("awaiting", standing, claim, detail=base.why)
            return [replace(waiting, no_room=base.no_room)]
        return self._carry_out(claim, standing, base, older)

    def _carry_out(
        self,
        claim: Claim,
        standing: Standing,
        base: Base,
        older: Sequence[tuple[Pull, Publication]],
    ) -> list[Published]:
        """Do every step; each finds what an earlier process did of it."""
        made = material.of_claim(claim)
        title = pull_request.title(made.evidence)
        numbers = [pull.number for pull, _ in older]
        told = self._announcement(claim, standing, base, numbers, title)
        files = {**made.files, **publication_file(told)}
        message = f"Evidence of {standing.branch}, run {self._run_id}"
        sha = self.forge.archive.put(folder_of(standing.branch), files, message)
        try:
            self.forge.push(self.root, standing, claim.commit)
        except Moved:
            self.forge.tell_edited(standing)
            return [_told("edited", standing, claim, detail=WHY["edited"])]
        opened = self._opened(claim, standing, base, told, made, sha)
        superseded = [self._superseded(pull, old, opened.number) for pull, old in older]
        if standing.recreates is not None:
            self.forge.tell_continued(standing.recreates, opened.number)
        checked = self.forge.check(claim.commit, self._check(claim, made, base))
        there = standing.pull
        if base.moved_to is None and there is not None and STALE in there.labels:
            self.forge.repository.remove_label(there.number, STALE)
        self.forge.archive.update_state(
            lambda state: with_pushed(state, standing.branch, claim.commit)
        )
        kind: Kind = "opened" if standing.kind == "new" else "updated"
        why = "" if checked else UNCHECKED
        became = _told(kind, standing, claim, opened=opened, base=base.branch, detail=why)
        return [became, *superseded]

    def _announcement(
        self, claim: Claim, standing: Standing, base: Base, older: Sequence[int], title: str
    ) -> Publication:
        """Return what is written down before anything of it is done."""
        earlier = standing.publication
        before: set[int] = set()
        if earlier is not None and (standing.kind == "open" or earlier.commit == claim.commit):
            before = set(earlier.supersedes)
        titles = earlier.titles if earlier is not None else []
        if not titles and standing.pull is not None:
            titles = [standing.pull.title]  # from before titles were noted
        known = known_commits(earlier, standing.pushed)
        announced = tuple(dict.fromkeys((*known, claim.commit)))
        return Publication(
            branch=standing.branch,
            of_branch=claim.branch,
            base=base.branch,
            base_commit=claim.base_commit,
            commit=claim.commit,
            announced=list(announced[-MOST_ANNOUNCED:]),
            changes=changes_of(claim.recorded.evidence.iteration),
            run_id=self._run_id,
            supersedes=sorted(before.union(older)),
            titles=list(dict.fromkeys((*titles, title)))[-MOST_TITLES:],
        )

    def _opened(
        self,
        claim: Claim,
        standing: Standing,
        base: Base,
        told: Publication,
        made: Material,
        sha: str,
    ) -> Opened:
        """Open the pull request of a pushed branch, or bring it up to date."""
        ties = Ties(
            base=base.branch,
            base_commit=claim.base_commit,
            stacked_on=base.stacked_on,
            supersedes=told.supersedes,
            recreates=standing.recreates,
        )
        kept = Kept(sha, folder_of(standing.branch))
        addresses = made.addresses(self.forge.archive, self.forge.remote.server, kept)
        return self.forge.open_pull_request(
            PullRequest(
                branch=standing.branch,
                base=base.branch,
                head_commit=claim.commit,
                title=pull_request.title(made.evidence),
                body=rendering.body(marker(PULL), made.evidence, ties, addresses),
            )
        )

    def _superseded(self, pull: Pull, old: Publication, number: int) -> Published:
        kind: Kind = "superseded" if self.forge.supersede(pull, old, number) else "edited"
        stays = "; it has commits of others, and stays" if kind == "edited" else ""
        why = f"#{number} has its changes{stays}"
        return Published(
            kind, pull.branch, pull.title, pull.base, pull.number, pull.url, detail=why
        )

    def _check(self, claim: Claim, made: Material, base: Base) -> checks.Check:
        if base.moved_to is not None:
            return checks.stale(claim.base_commit, base.branch, base.moved_to)
        return rendering.accepted(made.evidence)

    def _starts_over(self, claim: Claim) -> bool:
        if isinstance(self.recreate, bool):
            return self.recreate
        named = self.forge.archive.publication(self.recreate)
        return named is not None and named.of_branch == claim.branch

    def _base(self, claim: Claim) -> Base | Waits:
        """Return where a pull request goes, by what became of the one that it stands on."""
        below = self.done.get(claim.meta.base)
        if below is None:
            return self._base_of_run(claim)
        if below.kind in UP_TO_DATE:
            return Base(below.branch, stacked_on=below.number)
        name = below.branch if below.number is None else f"#{below.number}"
        if below.kind != "merged":
            return Waits(f"it stands on {name}, which is {below.kind}")
        head = self.forge.fetched(self.root, below.base)
        if head is None:
            return Waits(f"it stands on {name}, merged to {below.base}, which is gone")
        return self._as_measured(claim, below.base, head)

    def _base_of_run(self, claim: Claim) -> Base:
        """Return the branch that the run started from; of a detached commit the default branch."""
        detached = claim.meta.base == self.found.report.stack.commit
        name = self.forge.default_branch if detached else claim.meta.base
        head = self.forge.fetched(self.root, name)
        if head is None or not _holds(self.root, head, claim.base_commit):
            raise InvalidInput(
                f"{claim.branch} was measured on {claim.base_commit[:12]}, which the branch {name} "
                f"of {self.forge.repository.full_name} does not have",
                hint="push what was measured there, or run on what is there",
            )
        return self._as_measured(claim, name, head)

    def _as_measured(self, claim: Claim, name: str, head: str) -> Base:
        moved = serves_otherwise(self.root, self.forge.manifest, claim.base_commit, head)
        return Base(name, moved_to=head if moved else None)

    def _open_changes(self) -> list[Pull]:
        """Return the open pull requests of ours that are changes of a stack."""
        opened = self.forge.repository.open_pulls()
        return [pull for pull in opened if CHANGE_BRANCH.fullmatch(pull.branch)]

    def _older(
        self, claim: Claim, standing: Standing, opened: Sequence[Pull]
    ) -> list[tuple[Pull, Publication]]:
        """Return the open pull requests of earlier runs whose changes this one has too.

        Its evidence says which those are, and its commit has to hold them.
        """
        earlier = standing.publication
        # Superseded before and open again: a person wants to keep it.
        reopened: set[int] = set()
        if earlier is not None and earlier.commit == standing.pushed:
            reopened = set(earlier.supersedes)
        changes = set(changes_of(claim.recorded.evidence.iteration))
        found: dict[int, tuple[Pull, Publication]] = {}
        diffs: dict[int, bytes] = {}
        for pull in opened:
            if pull.branch == standing.branch or pull.number in reopened:
                continue
            old = self.forge.archive.publication(pull.branch)
            if old is None or old.of_branch in self.found.branches:
                continue
            if not old.changes or not changes.issuperset(old.changes):
                continue
            diff = self.forge.archive.get(f"{folder_of(pull.branch)}/{PATCH}")
            if diff is not None:
                found[pull.number], diffs[pull.number] = (pull, old), diff
        held = superseding.held(self.root, claim.commit, diffs)
        return [one for number, one in found.items() if number in held]

    def _room(self, opened: int) -> Waits | None:
        most = self.forge.manifest.bot.max_open_pull_requests
        if opened < most:
            return None
        told = f"{opened} are open, and the manifest's max_open_pull_requests is {most}"
        return Waits(told, no_room=True)

    @property
    def _run_id(self) -> str:
        return self.found.report.run_id


def _told(
    kind: Kind,
    standing: Standing,
    claim: Claim,
    *,
    opened: Opened | None = None,
    base: str | None = None,
    detail: str = "",
) -> Published:
    pull = standing.pull
    there = Opened(pull.number, pull.url) if opened is None and pull is not None else opened
    return Published(
        kind=kind,
        branch=standing.branch,
        title=pull_request.title(claim.recorded.evidence),
        base=base or (pull.base if pull is not None else claim.meta.base),
        number=there.number if there is not None else None,
        url=there.body if there is not None else None,
        iterations=claim.iterations,
        detail=detail,
    )


def _holds(root: Path, head: str, commit: str) -> bool:
    """Say whether a commit is in the history of another."""
    try:
        git.git(root, "merge-base", "--is-ancestor", commit, head)
    except ToolFailed:
        return False
    return True

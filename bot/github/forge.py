"""GitHub as a forge: how a branch of ours stands there, and the few writes that follow from it.

What people do is what counts:

    a commit on the branch that we did not push    the branch is theirs: never pushed, told once
    closed without merging                         means no, until somebody asks to start over
    merged                                         the same change is not offered again

A branch starts over under its name with a suffix, `-2` at first. Every write can be repeated: what
is there already is found, by branch, by hidden marker or by the check run's external id.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from bot.forge.base import Opened, PullRequest
from bot.github.archive import EvidenceBranch, Publication, folder_of, known_commits
from bot.github.errors import Forbidden
from bot.render import check as checks
from bot.render import publication as rendering
from knowledge import yamlfile
from layers.errors import InvalidInput
from layers.manifest import MANIFEST_PATH, Manifest
from layers.repository import git

if TYPE_CHECKING:
    from bot.github.replies import Pull
    from bot.github.repository import Repository
    from bot.github.transport import Remote

PULL = "pull"  # keys of the markers, of a body and of comments
EDITED, CONTINUED, SUPERSEDED = "edited", "continued", "superseded"
MOST_ATTEMPTS = 20  # names of one branch
_FETCHED = "refs/fvec/remote/"

StandingKind = Literal["new", "open", "edited", "closed", "merged", "superseded"]


@dataclass(frozen=True, slots=True)
class Standing:
    """How a branch of a run stands at GitHub.

    `branch` is its name there. `pull` is the newest pull request of it, `head` the commit that the
    branch has there, both None where there is none. `recreates` is the pull request before it.
    """

    branch: str
    kind: StandingKind
    pull: Pull | None
    head: str | None
    publication: Publication | None
    pushed: str | None  # what we know to have pushed last
    recreates: int | None = None

    def complete(self, commit: str, run_id: str) -> bool:
        """Say whether all of what is to be published of a run was published."""
        told = self.publication
        return (
            self.kind == "open"
            and told is not None
            and (told.commit, told.run_id, self.pushed, self.head)
            == (commit, run_id, commit, commit)
        )


class GitHubForge:
    """Pull requests of one repository at GitHub; never merges.

    `bot.publishing.github.publish_results` is what a finished run is published with.
    """

    name: Final = "github"

    def __init__(self, repository: Repository, remote: Remote) -> None:
        """Use the API of `repository`, and `remote` for its git objects."""
        self.repository = repository
        self.remote = remote
        self.archive = EvidenceBranch(repository)

    @cached_property
    def default_branch(self) -> str:
        """Return the name of the default branch."""
        return self.repository.default_branch()

    @cached_property
    def manifest(self) -> Manifest:
        """Return the manifest of the default branch: what its owners agreed to.

        Raises InvalidInput where there is none, and YamlError for one that is wrong.
        """
        content = self.repository.file(str(MANIFEST_PATH), self.default_branch)
        if content is None:
            raise InvalidInput(
                f"{self.repository.full_name} has no {MANIFEST_PATH} on {self.default_branch}",
                hint="the bot opens pull requests where its owners have merged one: `fvec init` "
                "writes a first manifest",
            )
        return yamlfile.loads(content.decode("utf-8", "replace"), Path(MANIFEST_PATH), Manifest)

    def address_of(self, attached: str) -> str | None:
        """Return None: an attached file has an address once it is committed, not before."""

    def open_pull_request(self, pull: PullRequest) -> Opened:
        """Create the pull request of a pushed branch, or bring the open one up to date.

        What is attached goes to the evidence branch. Raises GitHubError, and InvalidInput where
        the branch at GitHub is not at the commit that the pull request is about.
        """
        if pull.files:
            told = f"Files of {pull.branch}"
            self.archive.put(folder_of(pull.branch), pull.files, told)
        head = self.repository.branch_sha(pull.branch)
        if head != pull.head_commit:
            raise InvalidInput(
                f"{pull.branch} at {self.repository.full_name} is at {(head or 'nothing')[:12]}, "
                f"not at {pull.head_commit[:12]}",
                hint="somebody pushed to it meanwhile: publish again",
            )
        there = self._open_pull(pull.branch)
        if there is None:
            draft = self.manifest.bot.draft
            there = self.repository.create_pull(
                pull.branch, pull.base, pull.title, pull.body, draft=draft
            )
        title = pull.title if self._titled_by_us(there) else None
        self.repository.update_pull(there.number, title=title, body=pull.body, base=pull.base)
        absent = [name for name in self.manifest.bot.labels if name not in there.labels]
        if absent:
            self.repository.add_labels(there.number, absent)
        return Opened(number=there.number, body=there.url)

    def standing(self, branch: str, commit: str, *, recreate: bool = False) -> Standing:
        """Return how a run's branch stands, at `commit` in the run.

        Names that a person closed or edited are passed over where a later one was begun, or is to
        be: `recreate`. Raises GitHubError, and InvalidInput after 20 names.
        """
        pushed = self.archive.state().pushed
        found: Standing | None = None
        for name in _names(branch):
            publication = self.archive.publication(name)
            if publication is not None and publication.of_branch != branch:
                continue  # another branch of a run ends in the same digit
            if found is not None and publication is None and not recreate:
                return found
            before = found.pull if found is not None else None
            found = replace(
                self._look(name, commit, publication, pushed.get(name)),
                recreates=before.number if before is not None else None,
            )
            if found.kind not in {"closed", "edited"}:
                return found
        raise InvalidInput(
            f"{branch} was started over {MOST_ATTEMPTS} times at {self.repository.full_name}",
            hint="delete the branches of that name there that nobody needs",
        )

    def push(self, root: Path, standing: Standing, commit: str) -> bool:
        """Push `commit` to the branch unless it is there; say whether that was needed.

        Raises Moved where somebody pushed meanwhile, and GitHubError.
        """
        if standing.head == commit:
            return False
        self.remote.push(root, standing.branch, commit, expected=standing.head)
        return True

    def fetched(self, root: Path, branch: str) -> str | None:
        """Fetch a branch into `root`, no branch of which moves; return its commit, None if absent."""
        commit = self.remote.head(branch)
        if commit is None:
            return None
        kept = f"{_FETCHED}{branch}"
        self.remote.fetch(root, f"+refs/heads/{branch}:{kept}")
        commit = git.resolve(root, kept)
        git.git(root, "update-ref", "-d", kept)  # the objects stay: nothing collects them now
        return commit

    def check(self, commit: str, found: checks.Check) -> bool:
        """Set the check run of a commit's verdict; False where the token may not.

        GitHub lets Apps alone do that, the one of Actions among them.
        """
        try:
            self.repository.check_run(
                commit,
                checks.NAME,
                checks.VERDICT,
                status="completed",
                conclusion=found.conclusion,
                title=found.title,
                summary=found.summary,
                text=found.text,
            )
        except Forbidden:
            return False
        return True

    def tell_edited(self, standing: Standing) -> None:
        """Say once, on the pull request, that it is left to the person who committed to it."""
        pull = standing.pull
        if pull is not None and pull.state == "open" and self.is_ours(pull):
            told = rendering.edited(standing.branch)
            self.repository.tell(pull.number, EDITED, told)

    def tell_continued(self, old: int, number: int) -> None:
        """Say on a pull request that another one went on."""
        told = rendering.continued(number)
        self.repository.tell(old, CONTINUED, told)

    def supersede(self, old: Pull, publication: Publication, number: int) -> bool:
        """Say on `old` that pull request `number` has its changes, and close it.

        One with commits that are not ours stays open. Return whether it was closed.
        """
        pushed = self.archive.state().pushed.get(old.branch)
        closed = old.head_sha in known_commits(publication, pushed)
        told = rendering.superseded(number, closed=closed)
        self.repository.tell(old.number, SUPERSEDED, told)
        if closed:
            # First written down: closed by us, it does not mean no.
            self.archive.save_publication(
                publication.model_copy(update={"superseded_by": number}),
                f"{old.branch} is superseded by pull request {number}",
            )
            self.repository.update_pull(old.number, state="closed")
        return closed

    def is_ours(self, pull: Pull) -> bool:
        """Say whether we opened a pull request, from a branch of this repository."""
        inside = (pull.head_repository or "").lower() == self.repository.full_name.lower()
        return inside and pull.author.lower() == self.repository.login.lower()

    def _titled_by_us(self, pull: Pull) -> bool:
        """Say whether a title is one that we gave; a person's stays, for a check may ask for it."""
        told = self.archive.publication(pull.branch)
        return told is None or not told.titles or pull.title.strip() in map(str.strip, told.titles)

    def _open_pull(self, branch: str) -> Pull | None:
        pulls = self.repository.pulls_of(branch)
        return next((pull for pull in pulls if pull.state == "open"), None)

    def _look(
        self, name: str, commit: str, publication: Publication | None, pushed: str | None
    ) -> Standing:
        pull = next(iter(self.repository.pulls_of(name)), None)
        head = self.repository.branch_sha(name)
        ours = {None, commit, *known_commits(publication, pushed)}
        kind = self._kind(pull, publication, commit)
        if kind in {"new", "open"} and head not in ours:
            kind = "edited"
        there = pull if kind != "new" else None
        return Standing(name, kind, there, head, publication, pushed)

    def _kind(
        self, pull: Pull | None, publication: Publication | None, commit: str
    ) -> StandingKind:
        """Say how a branch stands by its newest pull request; what is on it is looked at by `_look`."""
        published = publication.commit if publication is not None else None
        if pull is None:
            return "new"
        if pull.merged:
            return "merged" if commit in {pull.head_sha, published} else "new"
        if pull.state == "open":
            return "open" if self.is_ours(pull) else "edited"
        if publication is None or publication.superseded_by is None:
            return "closed"
        return "superseded" if commit == published else "new"


def _names(branch: str) -> Iterator[str]:
    """Yield the names that a branch has at GitHub, one attempt after the other."""
    yield branch
    yield from (f"{branch}-{attempt}" for attempt in range(2, MOST_ATTEMPTS + 1))

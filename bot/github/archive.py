"""The branch `fvec/evidence`: what every pull request of ours rests on, and what was done last.

    state.json                         the last analyses, what failed, what was pushed to which branch
    pulls/<branch>/publication.json    what is published from the branch, told before it is done
    pulls/<branch>/...                 evidence.json, patch.diff, body.md, plots/*.svg

Nothing of its history is rewritten: an address that names a commit stays good. What it holds was
written by us, or by somebody who may write to the repository; it is still read as outside input.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.github.contents import ABSENT
from bot.github.errors import Conflict
from bot.render.text import one_line
from bot.wake.events import Moment
from layers.errors import InvalidInput

if TYPE_CHECKING:
    from bot.github.repository import Repository

BRANCH = "fvec/evidence"
STATE = "state.json"
PUBLICATION = "publication.json"
MOST_BYTES = 32 * 2**20  # of one file
MOST_DOCUMENT_BYTES = 2**20  # of the bot's own
MOST_ANNOUNCED = 50
MOST_PUSHED = 2_000  # branches; what was announced of the others still tells whose they are
MOST_TITLES = 20
MOST_LINE = 500
MOST_PARTS = 31  # groups of layers
_MOST_RACES = 5  # how often another writer of the same document may come first

Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
Line = Annotated[str, Field(max_length=MOST_LINE)]


class _Kept(BaseModel):
    """Base of what is kept on the branch: frozen, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


Document = TypeVar("Document", bound=_Kept)


class Analysis(_Kept):
    """A run that ended, and what it concluded; `layers` is empty where it was about all of them."""

    sha: Commit
    at: Moment  # when it ended
    run_id: Line
    conclusion: Line
    versions: dict[str, str] | None = None  # None: not known
    layers: list[Line] = Field(default_factory=list)
    began: Moment | None = None


class Attempt(_Kept):
    """A run that ended by an error, after the last that ended well."""

    sha: Commit
    at: Moment
    failures: Annotated[int, Field(ge=1, le=1_000_000)]  # one after the other at that commit
    why: Line
    job: Line = ""  # that found out: it may do so again after a kill


class State(_Kept):
    """`state.json`."""

    schema_: Literal["fvec.state/1"] = Field(default="fvec.state/1", alias="schema")
    analysis: Analysis | None = None  # the last that was about all layers
    partial: dict[str, Analysis] = Field(default_factory=dict, max_length=MOST_PARTS)  # by layers
    attempt: Attempt | None = None
    pushed: dict[str, Commit] = Field(default_factory=dict)  # by branch: the commit that we pushed


class Publication(_Kept):
    """`publication.json`: what is, or is about to be, published from one branch at GitHub."""

    schema_: Literal["fvec.publication/1"] = Field(default="fvec.publication/1", alias="schema")
    branch: Line  # at GitHub
    of_branch: Line  # as the run called it
    base: Line  # branch that the pull request was opened against
    base_commit: Commit  # that it was measured on
    commit: Commit
    announced: list[Commit] = Field(default_factory=list, max_length=MOST_ANNOUNCED)
    changes: list[Line] = Field(default_factory=list)  # "card on model", one or several joined
    run_id: Line
    supersedes: list[int] = Field(default_factory=list)
    superseded_by: int | None = None  # closed by us, for this one
    titles: list[Line] = Field(default_factory=list, max_length=MOST_TITLES)  # that we gave it
    base_merged: Literal["retargeted", "moved"] | None = None  # what followed for one stacked on it


def with_pushed(state: State, branch: str, commit: str) -> State:
    """Return the state after a push; of the branches that were pushed the last ones are kept."""
    others = {name: sha for name, sha in state.pushed.items() if name != branch}
    last = dict(list(others.items())[1 - MOST_PUSHED :])
    return state.model_copy(update={"pushed": {**last, branch: commit}})


def known_commits(publication: Publication | None, pushed: str | None) -> tuple[str, ...]:
    """Return the commits that a branch can have from us, oldest first.

    Those are the one that we know to have pushed last, and those announced since: a process that
    was killed in between may have pushed one of them.
    """
    announced = tuple(publication.announced) if publication is not None else ()
    if pushed is None:
        return announced
    if pushed in announced:
        return announced[announced.index(pushed) :]
    return (pushed, *announced)


class EvidenceBranch:
    """Reads and writes the branch through the API of one repository."""

    branch = BRANCH

    def __init__(self, repository: Repository) -> None:
        """Use `repository`; the branch is made by the first write."""
        self._repository = repository

    def put(self, folder: str, files: Mapping[str, bytes], message: str) -> str:
        """Commit files under `folder`; return the commit that has them. Same content: no commit.

        Raises `GitHubError`, and `InvalidInput` for a path that leaves the folder.
        """
        placed = {_path(f"{folder}/{name}"): content for name, content in files.items()}
        return self._repository.commit_files(self.branch, placed, message)

    def get(self, path: str, *, limit_bytes: int = MOST_BYTES) -> bytes | None:
        """Return a file as it is now, None where there is none.

        Raises `GitHubError`, and `InvalidInput` for a file of more than `limit_bytes`.
        """
        return self._repository.file(_path(path), self.branch, limit_bytes=limit_bytes)

    def url(self, server: str, sha: str, path: str) -> str:
        """Return the address, at GitHub's `server`, of a file in the commit `sha` of the branch."""
        place = quote(_path(path), safe="/")
        return f"{server}/{self._repository.full_name}/blob/{sha}/{place}?raw=true"

    def state(self) -> State:
        """Return what was done last; raises `InvalidInput` for a state that is not ours."""
        return self._read(STATE, State) or State()

    def update_state(self, change: Callable[[State], State]) -> State:
        """Replace `state.json` by what `change` makes of it as it is now; return that.

        Raises as `update` does.
        """

        def read(content: bytes | None) -> State:
            return self._parsed(STATE, State, content) or State()

        def changed(content: bytes | None) -> bytes | None:
            before = read(content)
            after = change(before)
            return None if after == before else _bytes(after)

        return read(self.update(STATE, changed, "State of the bot"))

    def note_attempt(self, sha: str, at: datetime, why: str, job: str = "") -> None:
        """Write down that an analysis of a commit ended by an error; raises as `update` does.

        The same `job` counts once.
        """
        moment = at.astimezone(UTC).isoformat(timespec="seconds")

        def noted(state: State) -> State:
            old = state.attempt
            if old is not None and job and old.job == job[:MOST_LINE]:
                return state
            failures = old.failures + 1 if old is not None and old.sha == sha else 1
            told = one_line(why, MOST_LINE)
            attempt = Attempt(sha=sha, at=moment, failures=failures, why=told, job=job[:MOST_LINE])
            return state.model_copy(update={"attempt": attempt})

        self.update_state(noted)

    def update(
        self, path: str, change: Callable[[bytes | None], bytes | None], message: str
    ) -> bytes | None:
        """Replace a file by what `change` makes of its content as it is now; None leaves it.

        Returns its content from then on. Where somebody else comes first `change` is asked again,
        about what is there then. Raises `GitHubError`, `Conflict` where others kept coming first or
        a rule forbids it, `InvalidInput` for a file that is too large, and what `change` raises.
        """
        races = 0
        while True:
            head = self._repository.branch_sha(self.branch)
            content = self._document(path, head) if head is not None else None
            wanted = change(content)
            if wanted is None:
                return content
            try:
                self._repository.commit_files(
                    self.branch, {_path(path): wanted}, message, expected_head=head or ABSENT
                )
                return wanted
            except Conflict:
                races += 1
                if races == _MOST_RACES or self._repository.branch_sha(self.branch) == head:
                    raise

    def publication(self, branch: str) -> Publication | None:
        """Return what is published from a branch; raises `InvalidInput` for what is not ours."""
        found = self._read(f"{folder_of(branch)}/{PUBLICATION}", Publication)
        if found is not None and found.branch != branch:
            raise self._unreadable(f"{folder_of(branch)}/{PUBLICATION}", "is of another branch")
        return found

    def save_publication(self, publication: Publication, message: str) -> None:
        """Replace `publication.json` of a branch."""
        self.put(folder_of(publication.branch), publication_file(publication), message)

    def _document(self, path: str, ref: str) -> bytes | None:
        return self._repository.file(_path(path), ref, limit_bytes=MOST_DOCUMENT_BYTES)

    def _read(self, path: str, model: type[Document]) -> Document | None:
        return self._parsed(path, model, self._document(path, self.branch))

    def _parsed(self, path: str, model: type[Document], content: bytes | None) -> Document | None:
        if content is None:
            return None
        try:
            return model.model_validate_json(content)
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            place = ".".join(str(part) for part in first["loc"]) or "the document"
            raise self._unreadable(path, f"{place}: {first['msg']}") from error

    def _unreadable(self, path: str, why: str) -> InvalidInput:
        return InvalidInput(
            f"{path} on the branch {self.branch} of {self._repository.full_name}: {why}",
            hint="the bot alone writes that branch: revert what else was committed there",
        )


def folder_of(branch: str) -> str:
    """Return the folder of a branch's evidence."""
    return f"pulls/{branch}"


def publication_file(publication: Publication) -> dict[str, bytes]:
    """Return `publication.json`, by name."""
    return {PUBLICATION: _bytes(publication)}


def _bytes(document: _Kept) -> bytes:
    return document.model_dump_json(by_alias=True, indent=1).encode() + b"\n"


def _path(path: str) -> str:
    """Return a path of the branch; raises `InvalidInput` where it is none below its root."""
    pure = PurePosixPath(path)
    if str(pure) != path or pure.is_absolute() or ".." in pure.parts or not path.isprintable():
        raise InvalidInput(f"not a path of the branch {BRANCH}: {path!r:.200}")
    return path

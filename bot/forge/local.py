"""The embedded forge: a directory that holds pull requests as files.

    <root>/index.md                   all of them
    <root>/pulls/<n>/body.md          what a reviewer reads
    <root>/pulls/<n>/meta.json        title, branch, base, head commit, when
    <root>/pulls/<n>/...              what is attached: patch.diff, evidence.json, plots/*.svg

A pull request is found by its branch, so a rerun updates the one that is there. Files are
written beside their place and renamed into it; a new pull request appears whole or not at all.
One that has all of what is to be published already is left as it is, its dates included: so what
was cut short can be done again without doing anything twice.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.forge.base import Opened, PullRequest
from bot.render.markdown import table
from bot.render.text import code, inline
from layers.errors import InvalidInput, Location, ToolFailed

_META, _INDEX = "meta.json", "index.md"
_BESIDE = ".new-"  # what a pull request is called until it is whole


class Meta(BaseModel):
    """`meta.json` of one pull request."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    schema_: Literal["fvec.pull/1"] = Field(default="fvec.pull/1", alias="schema")
    number: int = Field(ge=1)
    title: str
    branch: str
    base: str
    head_commit: str
    state: Literal["open"] = "open"
    created: str  # ISO 8601, UTC
    updated: str


class LocalForge:
    """Pull requests in a directory."""

    name: Final = "local"

    def __init__(
        self, root: Path, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        """Use `root`, which is made when the first pull request is opened."""
        self.root = root
        self._now = now

    def address_of(self, attached: str) -> str | None:
        """Return the relative path: body and attachments share a directory."""
        return attached

    def open_pull_request(self, pull: PullRequest) -> Opened:
        """Create or update the pull request of `pull.branch`.

        Raises `InvalidInput` when a `meta.json` in the directory cannot be read, and `ToolFailed`
        when the directory cannot be written.
        """
        pulls = self.root / "pulls"
        try:
            pulls.mkdir(parents=True, exist_ok=True)
            with _locked(self.root / ".lock"):
                for cut_short in pulls.glob(f"{_BESIDE}*"):
                    shutil.rmtree(cut_short, ignore_errors=True)
                for cut_short in self.root.glob(f".{_INDEX}-*"):
                    cut_short.unlink(missing_ok=True)
                return self._open(pull, pulls)
        except OSError as error:
            raise ToolFailed(
                f"the pull request of {pull.branch} cannot be written to {pulls}: {error.strerror}",
                hint="when that is mended, `fvec run --resume` goes on from here",
            ) from error

    def _open(self, pull: PullRequest, pulls: Path) -> Opened:
        known = self.pull_requests()
        old = next((meta for meta in known if meta.branch == pull.branch), None)
        meta = self._meta(pull, old, 1 + max((m.number for m in known), default=0))
        place = pulls / str(meta.number)
        if old is None:
            _create(place, pull, meta)
        elif not _holds(place, pull, old):
            _update(place, pull, meta)
        index = _index(self.pull_requests()).encode()
        if not _same(self.root / _INDEX, index):
            _write(self.root / _INDEX, index)
        return Opened(number=meta.number, body=str(place / "body.md"))

    def pull_requests(self) -> list[Meta]:
        """Return the pull requests by number; raises `InvalidInput` for an unreadable one."""
        files = (place / _META for place in (self.root / "pulls").glob("[0-9]*"))
        return sorted(map(_read_meta, files), key=lambda meta: meta.number)

    def _meta(self, pull: PullRequest, old: Meta | None, next_number: int) -> Meta:
        now = self._now().isoformat(timespec="seconds")
        return Meta(
            number=old.number if old else next_number,
            title=pull.title,
            branch=pull.branch,
            base=pull.base,
            head_commit=pull.head_commit,
            created=old.created if old else now,
            updated=now,
        )


def _create(place: Path, pull: PullRequest, meta: Meta) -> None:
    """Write everything beside `place`, then rename the directory."""
    beside = Path(tempfile.mkdtemp(prefix=_BESIDE, dir=place.parent))
    try:
        _update(beside, pull, meta)
        beside.chmod(0o755)
        beside.rename(place)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise


def _holds(place: Path, pull: PullRequest, meta: Meta) -> bool:
    """Say whether a pull request is already what is to be published, file by file."""
    wanted = _files(pull)
    there = {path for path in place.rglob("*") if path.is_file()}
    told = (meta.title, meta.base, meta.head_commit) == (pull.title, pull.base, pull.head_commit)
    return (
        told
        and there == {place / name for name in (*wanted, _META)}
        and all(_same(place / name, content) for name, content in wanted.items())
    )


def _files(pull: PullRequest) -> dict[str, bytes]:
    return {"body.md": pull.body.encode(), **pull.files}


def _same(path: Path, content: bytes) -> bool:
    try:
        return path.read_bytes() == content
    except FileNotFoundError:
        return False


def _update(place: Path, pull: PullRequest, meta: Meta) -> None:
    """Write every file, remove what is no longer attached, `meta.json` last."""
    wanted = _files(pull)
    for name, content in wanted.items():
        _write(place / name, content)
    kept = {place / name for name in (*wanted, _META)}
    for path in (p for p in place.rglob("*") if p.is_file() and p not in kept):
        path.unlink()
    _write(place / _META, meta.model_dump_json(by_alias=True, indent=2).encode() + b"\n")


def _write(path: Path, content: bytes) -> None:
    """Replace the file at once: a reader sees the old content or the new."""
    path.parent.mkdir(exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _read_meta(path: Path) -> Meta:
    try:
        return Meta.model_validate_json(path.read_bytes())
    except (ValidationError, OSError) as error:
        raise InvalidInput(
            "not a pull request of the local forge",
            at=Location(path),
            hint="remove the directory, or choose another one with --out",
        ) from error


def _index(metas: list[Meta]) -> str:
    rows = [
        [
            f"[{m.number}](pulls/{m.number}/body.md)",
            inline(m.title),
            code(m.branch),
            code(m.base),
            code(m.head_commit[:10]),
            m.updated,
        ]
        for m in metas
    ]
    head = ["#", "title", "branch", "base", "head", "updated"]
    return "# Pull requests\n\n" + table(head, rows, right="r") + "\n"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock, so that two runs never take the same number."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o644), "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

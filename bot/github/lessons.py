"""What the bot's commits on `fvec/knowledge` taught, as data, and how cards elsewhere learn it.

A commit of a run changes nothing of a card but its findings. So it is not its lines that are merged
into what people and other runs committed meanwhile, but the findings, once more, card by card
(`layers.loop.learning.refine`): in place, and nothing is overwritten. A card that cannot take its
findings is left to a person. They then lie beside the cards in a file of their own that no run reads:
`CARD-COMMIT.yaml.unmerged`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from bot.github.commits import Change, Stored, changes
from bot.render.knowledge_pull import Conflict, Learned
from bot.render.text import one_line
from knowledge import yamlfile
from knowledge.cards import TRIED, CookbookCard, FactCard, Finding, SkillCard, TriedCard
from knowledge.memory import Memory, parsed
from knowledge.refine import merge_findings
from knowledge.store import (
    MEMORY_FILE,
    Cards,
    builtin_directory,
    card_files,
    folder_of,
    load_card,
    load_cards,
)
from knowledge.yamlfile import YamlError
from layers.agents.memory import kept
from layers.base import Edit
from layers.errors import InvalidInput, Location
from layers.loop import learning
from layers.loop.learning import KNOWLEDGE_BRANCH
from layers.repository import git
from layers.repository.stack import Stack

REFERENCE = f"refs/heads/{KNOWLEDGE_BRANCH}"
UNMERGED = ".yaml.unmerged"
_SUFFIXES = (".yaml", ".yml", UNMERGED)
_REASON = "# not merged: "
_LONGEST_REASON = 300
_OURS = re.compile(rf"([a-z0-9-]+)-[0-9a-f]{{12}}{re.escape(UNMERGED)}")


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one commit taught one card: `text` is all of it as the commit left it.

    `existed` says that the card had a file of its own before the commit, `faithful` that the commit
    changed nothing of the card but its findings.
    """

    path: str
    card: TriedCard
    text: str
    findings: tuple[Finding, ...]
    existed: bool
    faithful: bool


@dataclass(frozen=True, slots=True)
class Desk:
    """A throw-away repository where cards are merged, with the stack of the base checked out.

    `there` is where the branch of knowledge is at GitHub; the branch here goes on from it.
    """

    bare: Path
    stack: Stack
    out: Path
    there: str | None

    @property
    def folder(self) -> str:
        """Folder of the repository's own cards."""
        return PurePosixPath(self.stack.manifest.knowledge).as_posix()

    @property
    def memory(self) -> str:
        """Path of what agents remember; a run rewrites it as a whole."""
        return f"{self.folder}/{MEMORY_FILE}"


def lessons_of(desk: Desk, commit: str) -> list[Lesson]:
    """Return what a commit of the bot taught; raises InvalidInput for what is no card or memory."""
    found = list[Lesson | None]()
    for change in changes(desk.bare, f"{commit}^", commit):
        if change.path == desk.memory:
            _memory(desk.bare, change.new, change.path)
        else:
            found.append(_lesson(desk.bare, change))
    return [lesson for lesson in found if lesson is not None]


def are_plain(desk: Desk, commit: str, lessons: Sequence[Lesson]) -> bool:
    """Say whether a commit adds findings to cards of the repository, or to the memory, alone."""
    taught = {lesson.path for lesson in lessons if lesson.faithful} | {desk.memory}
    return all(
        change.path in taught and change.path.startswith(f"{desk.folder}/")
        for change in changes(desk.bare, f"{commit}^", commit)
    )


def teach(desk: Desk, commit: str, lessons: Sequence[Lesson]) -> None:
    """Merge what `commit` taught into the cards as they are on the branch, and commit that.

    Raises InvalidInput where neither the card nor a file beside it can take the findings.
    """
    shelf = _Shelf.read(desk, learning.knowledge_folders(desk.stack, desk.out)[-1])
    taught: dict[str, list[Finding]] = {}
    left: dict[str, list[tuple[Lesson, str]]] = {}
    for lesson in (lesson for lesson in lessons if lesson.findings):
        why = shelf.why_not(lesson)
        if why is None:
            taught.setdefault(lesson.card.id, []).extend(lesson.findings)
        else:
            left.setdefault(lesson.card.id, []).append((lesson, why))
    known, memory = _known(lessons, desk.out / commit), _remembered(desk, commit)
    if taught or memory:
        run = _run_of(desk.bare, commit)
        record = learning.refine(desk.stack, known, taught, desk.out, kept=memory, run=run)
        if record.problems:
            raise InvalidInput(f"a card cannot take its findings: {record.problems[0]}")
    if left:
        _keep(desk, commit, [_ours(known, told) for told in left.values()])


def described(desk: Desk) -> tuple[list[Learned], list[Conflict]] | None:
    """Return what the branch has and its base has not: findings by card, and what lies unmerged.

    None where the base has all of the branch, or there is no branch.
    """
    folders = learning.knowledge_folders(desk.stack, desk.out)
    if len(folders) == 1:
        return None
    base, branch = (_Shelf.read(desk, folder) for folder in folders)
    found = []
    for card_id, card in sorted(branch.cards.items()):
        before = base.cards.get(card_id) or _shipped().get(card_id)
        known = before.findings if isinstance(before, CookbookCard | SkillCard) else []
        new = tuple(finding for finding in card.findings if finding not in known)
        if new:
            found.append(Learned(card_id, new))
    beside = [*branch.folder.rglob(f"*{UNMERGED}"), *branch.folder.glob(kept.BESIDE)]
    unmerged = filter(branch.is_plain, sorted(beside))
    return found, [branch.conflict(path) for path in unmerged]


@dataclass(frozen=True, slots=True)
class _Shelf:
    """The repository's own cards in one working tree: by id, and the files that are no cards."""

    root: Path
    folder: Path
    cards: dict[str, TriedCard]  # that take findings
    paths: dict[str, Path]  # of cards of every kind, by id
    broken: dict[Path, YamlError]

    @classmethod
    def read(cls, desk: Desk, folder: Path) -> _Shelf:
        """Read the cards of a folder that `layers.loop.learning` names."""
        root = folder.parents[len(PurePosixPath(desk.folder).parts) - 1]
        shelf = cls(root, folder, {}, {}, {})
        for path in filter(shelf.is_plain, card_files(folder)):
            try:
                card = load_card(path)
            except YamlError as error:
                shelf.broken[path] = error
                continue
            shelf.paths[card.id] = path
            if not isinstance(card, FactCard):
                shelf.cards[card.id] = card
        return shelf

    def is_plain(self, path: Path) -> bool:
        """Say whether a file lies in the repository itself: through a link it may be anywhere."""
        try:
            git.checked_path(self.root, path.relative_to(self.root).as_posix())
        except InvalidInput:
            return False
        return path.is_file()

    def why_not(self, lesson: Lesson) -> str | None:
        """Say why the card of a lesson cannot take its findings, None where it can."""
        hurt = self._hurt(lesson.card.id) or self.broken.get(self.root / lesson.path)
        if hurt is not None:
            return f"its file {hurt.path.name} is no card any more: {hurt.message}"
        path = self.paths.get(lesson.card.id)
        if path is None:
            return "its file was deleted, or given another id" if lesson.existed else None
        try:
            merge_findings(yamlfile.read(path), lesson.findings, path)
        except YamlError as error:
            return f"its file {path.name} cannot be refined: {error.message}"
        return None

    def conflict(self, path: Path) -> Conflict:
        """Return both sides of a file of findings that were not merged."""
        ours = _text(path)
        first, _, _ = ours.partition("\n")
        reason = first.removeprefix(_REASON) if first.startswith(_REASON) else "not merged"
        if path.match(kept.BESIDE):
            memory = self.folder / MEMORY_FILE
            theirs = _text(memory) if self.is_plain(memory) else None
            return Conflict("memory", path.relative_to(self.root).as_posix(), reason, ours, theirs)
        named = _OURS.fullmatch(path.name)
        card = named[1] if named else path.name.removesuffix(UNMERGED)
        hurt = self._hurt(card)
        file = hurt.path if hurt is not None else self.paths.get(card)
        place = path.relative_to(self.root).as_posix()
        return Conflict(card, place, reason, ours, _text(file) if file is not None else None)

    def _hurt(self, card_id: str) -> YamlError | None:
        return next((error for path, error in self.broken.items() if path.stem == card_id), None)


def _lesson(bare: Path, change: Change) -> Lesson | None:
    if change.new is None or not change.path.endswith(_SUFFIXES):
        return None
    text, card = _stored_card(bare, change.new.name, change.path)
    old = _stored_card(bare, change.old.name, change.path)[1] if change.old is not None else None
    known = old.findings if old is not None else ()
    unmerged = change.path.endswith(UNMERGED)
    return Lesson(
        change.path,
        card,
        text,
        tuple(finding for finding in card.findings if finding not in known),
        existed=unmerged or old is not None,
        faithful=unmerged
        or _without_findings(old or _shipped().get(card.id)) == _without_findings(card),
    )


def _without_findings(card: TriedCard | FactCard | None) -> TriedCard | None:
    if card is None or isinstance(card, FactCard):
        return None
    return card.model_copy(update={"findings": [], "earlier": None})


def _stored_card(bare: Path, blob: str, path: str) -> tuple[str, TriedCard]:
    text = git.git(bare, "cat-file", "blob", blob)
    try:
        return text, yamlfile.loads(text, Path(f"{KNOWLEDGE_BRANCH}:{path}"), TRIED)
    except YamlError as error:
        place = Location(error.path, error.line, error.column)
        raise InvalidInput(error.message, at=place, hint=error.hint) from error


def _memory(bare: Path, stored: Stored | None, path: str) -> Memory:
    """Return what agents remember as it is stored; raises InvalidInput for what is no memory."""
    if stored is None:
        return Memory()
    text = git.git(bare, "cat-file", "blob", stored.name)
    try:
        return parsed(text, Path(f"{KNOWLEDGE_BRANCH}:{path}"))
    except YamlError as error:
        place = Location(error.path, error.line, error.column)
        raise InvalidInput(error.message, at=place, hint=error.hint) from error


def _remembered(desk: Desk, commit: str) -> dict[str, bytes]:
    """Return the memory that a commit brought, on top of the one on the branch; empty for none.

    Where the one on the branch is no memory any more it is left to a person, and ours lies beside it,
    as a run leaves it that finds that out itself.
    """
    found = changes(desk.bare, f"{commit}^", commit)
    beside = [c for c in found if c.new is not None and _lies_beside(desk, c.path)]
    files = {PurePosixPath(c.path).name: _beside(desk.bare, c) for c in beside}
    change = next((c for c in found if c.path == desk.memory), None)
    if change is None or change.new is None:
        return files
    ours = _memory(desk.bare, change.new, change.path)
    before = _memory(desk.bare, change.old, change.path)
    run = _run_of(desk.bare, commit)
    now = kept.files(desk.stack, desk.out, ours, loaded=before, run=run, secrets=())
    return {**files, **now}


def _lies_beside(desk: Desk, path: str) -> bool:
    """Whether a path is that of a memory that could not be put into the one there was."""
    place = PurePosixPath(path)
    return place.parent == PurePosixPath(desk.folder) and place.match(kept.BESIDE)


def _beside(bare: Path, change: Change) -> bytes:
    """Return such a file as it is; raises InvalidInput where it is no memory."""
    _memory(bare, change.new, change.path)
    stored = change.new.name if change.new is not None else ""
    return git.git(bare, "cat-file", "blob", stored).encode("utf-8", "surrogateescape")


def _run_of(bare: Path, commit: str) -> str:
    """Return the run that the subject of a commit names."""
    subject = git.git(bare, "log", "-1", "--format=%s", commit)
    return one_line(subject.rpartition(" from run ")[2], _LONGEST_REASON)


@cache
def _shipped() -> Cards:
    return load_cards(builtin_directory())


def _known(lessons: Sequence[Lesson], folder: Path) -> Cards:
    """Return the cards that a new copy is made from: those that ship, else as the run left them."""
    ours = {card.id: card for card in _shipped().tried}
    paths = dict(_shipped().paths)
    folder.mkdir(parents=True, exist_ok=True)
    for lesson in lessons:
        if lesson.card.id not in ours:
            ours[lesson.card.id] = lesson.card
            paths[lesson.card.id] = folder / f"{lesson.card.id}.yaml"
            paths[lesson.card.id].write_bytes(lesson.text.encode("utf-8", "surrogateescape"))
    cookbook = tuple(card for card in ours.values() if isinstance(card, CookbookCard))
    skills = tuple(card for card in ours.values() if isinstance(card, SkillCard))
    return Cards(cookbook, (), paths, skills)


def _ours(known: Cards, refused: Sequence[tuple[Lesson, str]]) -> tuple[TriedCard, bytes]:
    """Return our side of a conflict: the card with the findings, and why they are not in theirs."""
    lesson, why = refused[0]
    source = known.path_of(lesson.card.id)
    findings = [finding for one, _ in refused for finding in one.findings]
    try:
        text = merge_findings(yamlfile.read(source), findings, source)
    except YamlError as error:
        raise InvalidInput(error.message, at=Location(source), hint=error.hint) from error
    head = f"{_REASON}{one_line(why, _LONGEST_REASON)}\n"
    return lesson.card, f"{head}{text}".encode("utf-8", "surrogateescape")


def _keep(desk: Desk, of: str, ours: Sequence[tuple[TriedCard, bytes]]) -> None:
    """Commit what commit `of` taught and could not be merged, beside the cards."""
    start = learning.knowledge_tip(desk.stack) or desk.stack.commit
    worktree = desk.stack.worktree(start, desk.out / "worktrees")
    files = {
        f"{desk.folder}/{folder_of(card)}/{card.id}-{of[:12]}{UNMERGED}": content
        for card, content in ours
    }
    edit = Edit(
        files,
        summary=f"Keep findings of {len(files)} card{'s' if len(files) != 1 else ''} for a person",
        explanation="\n".join(sorted(files)),
    )
    commit, _ = git.commit_edit(worktree, edit)
    git.git(desk.bare, "update-ref", REFERENCE, commit)


def _text(path: Path) -> str:
    """Return a file's text, as much of it as a card may have."""
    with path.open("rb") as file:
        return file.read(2**20).decode("utf-8", "replace")

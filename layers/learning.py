"""What a run takes from the cards before it and leaves in them after it.

General cards ship with fvec. What a run finds is written to copies of them in the serving
repository, on a branch of their own, so that its owners review knowledge like code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from knowledge.cards import CookbookCard, Finding
from knowledge.refine import is_refuted, merge_finding
from knowledge.store import Cards, builtin_directory, load_cards
from knowledge.yamlfile import YamlError
from layers import git
from layers.base import Edit, Ground, Hypothesis, Layer, LayerName
from layers.errors import InvalidInput, Location, ToolFailed
from layers.evidence import Iteration, KnowledgeRecord, Verdict
from layers.sampling import Past
from layers.session import RunOptions, Session
from layers.stack import Stack

KNOWLEDGE_BRANCH = "fvec/knowledge"


def knowledge_folders(stack: Stack, out: Path) -> list[Path]:
    """Return the repository's own cards: those of its commit, then of the knowledge branch."""
    folders = [stack.root / stack.manifest.knowledge]
    tip = _unmerged_tip(stack)
    if tip is not None:
        worktree = stack.worktree(tip, out / "worktrees")
        folders.append(worktree / stack.manifest.knowledge)
    return folders


def cards(session: Session, cookbook: Path | None) -> Cards:
    """Return the packaged cards refined by the repository's own, or those of `cookbook` alone."""
    if cookbook is None:
        return load_cards(builtin_directory(), *knowledge_folders(session.stack, session.out))
    if not cookbook.is_dir():
        raise InvalidInput(
            f"{cookbook} is not a folder", hint="--cookbook DIR holds cookbook cards"
        )
    return load_cards(cookbook)


def refuted_by(known: Cards, ground: Ground) -> Callable[[Hypothesis], str | None]:
    """Return what says why earlier runs on the same ground already answered a hypothesis."""

    def refuted(hypothesis: Hypothesis) -> str | None:
        card = known.get(hypothesis.card)
        if not isinstance(card, CookbookCard):
            return None
        return is_refuted(
            card,
            model=hypothesis.model,
            stack=ground.stack,
            workload=ground.workload,
            hardware=ground.hardware,
            versions=ground.versions,
            today=ground.date,
        )

    return refuted


def past(known: Cards) -> list[Past]:
    """Return what the findings say about each layer, for sampling."""
    return [
        Past(LayerName(card.layer), Verdict(finding.verdict))
        for card in known.cookbook
        for finding in card.findings
    ]


def findings(
    iterations: Iterable[Iteration], layers: Mapping[LayerName, Layer], ground: Ground
) -> dict[str, list[Finding]]:
    """Return what the iterations taught, by card; one finding for each model that it changed."""
    found: dict[str, list[Finding]] = {}
    for iteration in iterations:
        finding = layers[iteration.layer].refine(iteration, ground)
        if finding is not None:
            found.setdefault(iteration.card, []).append(finding)
    return found


def refine(
    stack: Stack, known: Cards, found: Mapping[str, Sequence[Finding]], out: Path
) -> KnowledgeRecord:
    """Merge findings into their cards in place and commit them on the knowledge branch.

    `found` is by the id of the card; findings of a card that `known` does not hold are dropped.
    The commit goes on top of what reviewers did on the branch. Raises InvalidInput when a card
    cannot be edited in place, or when the branch of that name was never the bot's.
    """
    tip = _unmerged_tip(stack)
    worktree = stack.worktree(tip or stack.commit, out / "worktrees")
    by_id = {card.id: card for card in known.cookbook}
    told = {card_id: f for card_id, f in sorted(found.items()) if card_id in by_id}
    try:
        files = dict(_refined(by_id[i], f, known, worktree, stack) for i, f in told.items())
    except YamlError as error:
        at = Location(error.path, error.line, error.column)
        raise InvalidInput(error.message, at=at, hint=error.hint) from error
    if not files:
        return KnowledgeRecord(branch=None, cards_changed=[])
    commit, _ = git.commit_edit(worktree, _edit(files, told))
    _advance(stack, commit)
    return KnowledgeRecord(branch=KNOWLEDGE_BRANCH, cards_changed=sorted(files))


def _refined(
    card: CookbookCard, found: Sequence[Finding], known: Cards, worktree: Path, stack: Stack
) -> tuple[str, bytes]:
    """Return path and new text of one card, in the repository's own folder of cards.

    The text of the repository's own card counts, else that of the card that the run used.
    """
    folder = worktree / stack.manifest.knowledge
    own = load_cards(folder).paths.get(card.id)
    source = own or known.path_of(card.id)
    place = own or folder / "cookbook" / card.layer / f"{card.id}.yaml"
    text = source.read_bytes().decode()
    for finding in found:
        text = merge_finding(text, finding, source)
    return str(place.relative_to(worktree)), text.encode()


def _edit(files: Mapping[str, bytes], told: Mapping[str, Sequence[Finding]]) -> Edit:
    all_of_it = [(card_id, finding) for card_id, found in told.items() for finding in found]
    return Edit(
        files,
        summary=f"Refine {len(files)} card{'s' if len(files) != 1 else ''} from run "
        f"{all_of_it[0][1].run}",
        explanation="\n".join(
            f"{card_id}{f' on {finding.model}' if finding.model else ''}: "
            f"{finding.verdict} ({finding.reason})"
            for card_id, finding in all_of_it
        ),
    )


def base_branch(stack: Stack) -> str:
    """Return the branch that is checked out, or the commit where none is."""
    name = git.git(stack.root, "rev-parse", "--abbrev-ref", "HEAD").strip()
    return stack.commit if name == "HEAD" else name


def reproduce(options: RunOptions) -> list[str]:
    """Return the command that measures again, as argv, run where the repository is checked out."""
    argv = ["fvec", "run", ".", "--seed", str(options.seed)]
    for layer in options.layers or ():
        argv += ["--layer", layer.value]
    return argv


def tip_of(stack: Stack, branch: str) -> str | None:
    """Return the commit of a branch, None where there is no such branch."""
    try:
        return git.resolve(stack.root, f"refs/heads/{branch}")
    except ToolFailed:
        return None


def _unmerged_tip(stack: Stack) -> str | None:
    """Return the branch's commit, None without one or once the stack has all of it."""
    tip = tip_of(stack, KNOWLEDGE_BRANCH)
    if tip is None or git.git(stack.root, "rev-list", "-1", f"{stack.commit}..{tip}"):
        return tip
    return None


def _advance(stack: Stack, commit: str) -> None:
    """Move the branch to `commit`, which is built on it: what reviewers committed there stays."""
    tip = tip_of(stack, KNOWLEDGE_BRANCH)
    ours = (f"--committer={git.BOT_EMAIL}", "--fixed-strings", "-1")
    if tip is not None and not git.git(stack.root, "rev-list", *ours, tip):
        raise InvalidInput(
            f"the branch {KNOWLEDGE_BRANCH} exists and the bot never committed to it",
            hint="rename it: the bot keeps what it learned on a branch of that name",
        )
    git.git(
        stack.root, "update-ref", f"refs/heads/{KNOWLEDGE_BRANCH}", commit, tip or "0" * len(commit)
    )

"""What a run takes from the cards before it and leaves in them after it.

General cards ship with fvec. What a run finds is written to copies of them in the serving
repository, on a branch of their own, so that its owners review knowledge like code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

import knowledge.ground
from knowledge import yamlfile
from knowledge.cards import CookbookCard, Finding, TriedCard
from knowledge.ground import split_change, usable, weight
from knowledge.refine import merge_findings
from knowledge.standing import (
    Standing,
    State,
    expected,
    proven,
    refused_together,
    standing,
)
from knowledge.store import (
    Cards,
    builtin_directory,
    card_files,
    folder_of,
    load_card,
    load_cards,
)
from knowledge.yamlfile import Problem, YamlError
from layers.base import ChangeClass, Edit, Ground, Hypothesis, Layer, LayerName
from layers.errors import InvalidInput, ToolFailed
from layers.evidence import Iteration, KnowledgeRecord, Verdict, changes_of
from layers.findings import finding as learned
from layers.loop.sampling import Past, Weighed, joined
from layers.repository import git
from layers.repository.stack import Stack

if TYPE_CHECKING:
    from layers.session import RunOptions

KNOWLEDGE_BRANCH = "fvec/knowledge"
_CARDS = "every YAML file below the folder `knowledge` of the manifest is read as a card"


class Opened(Protocol):
    """A stack in work: what reading its cards needs."""

    @property
    def stack(self) -> Stack:
        """The serving repository, open."""

    @property
    def out(self) -> Path:
        """Where worktrees may be made."""


def knowledge_tip(stack: Stack) -> str | None:
    """Return the commit of the knowledge branch whose cards count; None where the stack has them."""
    return _unmerged_tip(stack)


def knowledge_folders(stack: Stack, out: Path) -> list[Path]:
    """Return the repository's own cards: those of its commit, then of the knowledge branch."""
    return folders_at(stack, out, knowledge_tip(stack))


def folders_at(stack: Stack, out: Path, tip: str | None) -> list[Path]:
    """Return the same, the branch as it was at `tip`; the last folder's files count."""
    folders = [stack.root / stack.manifest.knowledge]
    if tip is not None:
        worktree = _branch_worktree(stack, tip, out / "worktrees")
        folders.append(worktree / stack.manifest.knowledge)
    return folders


def cards(session: Opened, cookbook: Path | None, tip: str | None) -> Cards:
    """Return the packaged cards refined by the repository's own, or those of `cookbook` alone.

    `tip` is the commit of the knowledge branch: `knowledge_tip` as the run began.
    """
    if cookbook is None:
        folders = folders_at(session.stack, session.out, tip)
        try:
            return load_cards(builtin_directory(), *folders)
        except YamlError as error:
            depth = len(PurePosixPath(session.stack.manifest.knowledge).parts)
            root = folders[-1].parents[depth - 1] if tip is not None else None
            first, *others = (_on_branch(p, root) for p in error.problems)
            hint = f"{first.hint}; {_CARDS}" if first.hint else _CARDS
            raise YamlError.of([replace(first, hint=hint), *others]) from error
    if not cookbook.is_dir():
        raise InvalidInput(
            f"{cookbook} is not a folder", hint="--cookbook DIR holds cookbook cards"
        )
    return load_cards(cookbook)


def weigh(
    known: Cards, ground: Ground, found: Sequence[Hypothesis], on_top: Sequence[str] = ()
) -> Weighed:
    """Return the hypotheses in the light of the findings; `on_top` are changes in place by now.

    The expected gain becomes that of card and findings together, within the card's range. A
    hypothesis is answered that was refuted on this ground, or inconclusive there lately. Changes
    that were accepted there may be measured together: of one class that is no approximation, two
    or more, what each was accepted on top of being in place or among them, the code of its model
    and the version of fvec being those of its proof.
    """
    here = _ground(ground, on_top)
    cards = {card.id: card for card in known.cookbook}
    hypotheses, answered = [], {}
    for hypothesis in (replace(h, on_top=tuple(on_top)) for h in found):
        card = cards.get(hypothesis.card)
        if card is not None:
            stands = standing(card, hypothesis.model, here, hypothesis.share)
            if stands.answered:
                answered[hypothesis.change] = f"{card.id}: {stands.why}"
            hypothesis = _informed(hypothesis, card, here, stands)
        hypotheses.append(hypothesis)
    open_ones = [h for h in hypotheses if h.change not in answered]
    return Weighed(hypotheses, answered, _together(open_ones, cards, here))


def _ground(ground: Ground, on_top: Sequence[str]) -> knowledge.ground.Ground:
    return knowledge.ground.Ground(
        stack=ground.stack,
        workload=ground.workload,
        hardware=ground.hardware,
        versions=ground.versions,
        today=ground.date,
        on_top=frozenset(on_top),
        fvec=ground.fvec,
        code=ground.code,
    )


def _informed(
    hypothesis: Hypothesis, card: CookbookCard, here: knowledge.ground.Ground, stands: Standing
) -> Hypothesis:
    """Return the hypothesis with the gain that card and findings let expect, and why."""
    seen = expected(
        card,
        hypothesis.model,
        here,
        gain=hypothesis.expected_gain,
        best=hypothesis.best_gain,
        share=hypothesis.share,
    )
    why = hypothesis.why
    if seen.findings:
        why += (
            f"; {seen.mean:.0%} of it may go by the card's {hypothesis.expected_gain:.0%} and "
            f"{seen.findings} finding{'s' if seen.findings > 1 else ''}, which count for "
            f"{seen.weight:.0%}"
        )
    if stands.state in {State.STALE, State.OPEN}:
        why += f"; {stands.why}"
    return replace(hypothesis, expected_gain=seen.mean, why=why)


def _together(
    found: Sequence[Hypothesis], cards: Mapping[str, CookbookCard], here: knowledge.ground.Ground
) -> Hypothesis | None:
    """Return the proven changes of the class with the highest score as one hypothesis, or None."""
    proofs = {
        h.change: (h, finding)
        for h in found
        if h.card in cards and h.change_class is not ChangeClass.APPROXIMATE
        if (finding := proven(cards[h.card], h.model, here)) is not None
    }
    joints = []
    for kind in ChangeClass:
        named = {n: p for n, p in proofs.items() if p[0].change_class is kind}
        while lost := [
            n for n, p in named.items() if not here.on_top | named.keys() >= {*p[1].on_top}
        ]:
            named = {n: p for n, p in named.items() if n not in lost}
        refused = any(
            refused_together(cards[h.card], frozenset(named), here) for h, _ in named.values()
        )
        if len(named) >= 2 and not refused:
            order = sorted(named.values(), key=lambda p: (len(p[1].on_top), p[0].card, p[0].model))
            joints.append(replace(joined([h for h, _ in order]), on_top=tuple(sorted(here.on_top))))
    return max(joints, key=lambda joint: joint.score, default=None)


def past(known: Cards, ground: Ground) -> list[Past]:
    """Return what the findings say about each layer, for sampling, weighted by age and ground.

    Findings of several changes together say nothing about one layer and are left out, as are those
    with a date after today.
    """
    here = _ground(ground, ())
    return [
        Past(LayerName(card.layer), Verdict(finding.verdict), weight(finding, here))
        for card in known.cookbook
        for finding in card.findings
        if not finding.together and usable(finding, here)
    ]


def findings(
    iterations: Iterable[Iteration], layers: Mapping[LayerName, Layer], ground: Ground
) -> dict[str, list[Finding]]:
    """Return what the iterations taught, by card; one finding for each model that it changed.

    What an agent wrote has no card: it teaches the skill that its contract names, if any. There the
    newest try of an issue comes first, and so is the one that counts.
    """
    found: dict[str, list[Finding]] = {}
    tried = list(iterations)
    for iteration in (i for i in tried if i.hypothesis.contract is None):
        finding = layers[iteration.layer].refine(iteration, ground)
        if finding is None:
            continue
        for name in changes_of(iteration):
            card, model = split_change(name)
            one = finding.model_copy(update={"model": model}) if finding.together else finding
            found.setdefault(card, []).append(one)
    for iteration in reversed(tried):
        contract = iteration.hypothesis.contract
        if contract is not None and contract.skill:
            found.setdefault(contract.skill, []).append(learned(iteration, ground))
    return found


def refine(
    stack: Stack,
    known: Cards,
    found: Mapping[str, Sequence[Finding]],
    out: Path,
    *,
    kept: Mapping[str, bytes] = MappingProxyType({}),
    run: str = "",
) -> KnowledgeRecord:
    """Merge findings into their cards in place and commit them on the knowledge branch.

    `found` is by the id of the card; findings of a card that `known` does not hold are dropped, and
    those of agents where the card is no skill.
    `kept` are files beside the cards that run `run` rewrites as a whole: what agents remember.
    The commit goes on top of what reviewers did on the branch. A card that cannot take its
    findings (half-written, say) is named in `problems` and hinders no other. What the cards hold
    already is not committed again. Raises InvalidInput when the branch was never the bot's.
    """
    tip = _unmerged_tip(stack)
    worktree = _branch_worktree(stack, tip or stack.commit, out / "worktrees")
    by_id = {card.id: card for card in known.tried}
    told = {i: meant for i, f in sorted(found.items()) if (meant := _meant(by_id.get(i), f))}
    files, problems, places = dict[str, bytes](), list[str](), list[str]()
    for card_id, new in told.items():
        try:
            place, text = _refined(by_id[card_id], new, known, worktree, stack)
        except YamlError as error:
            problems += [str(_on_branch(p, worktree)) for p in error.problems]
            continue
        places.append(place)
        if not (worktree / place).is_file() or (worktree / place).read_bytes() != text:
            files[place] = text
    for name, text in kept.items():
        place = f"{stack.manifest.knowledge}/{name}"
        places.append(place)
        if not (worktree / place).is_file() or (worktree / place).read_bytes() != text:
            files[place] = text
    if files:
        commit, _ = git.commit_edit(worktree, _edit(files, told, run))
        _advance(stack, commit)
    branch = KNOWLEDGE_BRANCH if places else None
    return KnowledgeRecord(branch=branch, cards_changed=sorted(places), problems=problems)


def _meant(card: TriedCard | None, found: Sequence[Finding]) -> list[Finding]:
    """Return the findings that are meant for this card: a card of the cookbook takes no agent's."""
    if card is None:
        return []
    return [f for f in found if not (f.issue and isinstance(card, CookbookCard))]


def _refined(
    card: TriedCard, found: Sequence[Finding], known: Cards, worktree: Path, stack: Stack
) -> tuple[str, bytes]:
    """Return path and new text of one card, in the repository's own folder of cards.

    The text of the repository's own card counts, else that of the card that the run used.
    """
    folder = worktree / stack.manifest.knowledge
    own = _own_file(folder, card.id)
    source = own or known.path_of(card.id)
    place = own or folder / folder_of(card) / f"{card.id}.yaml"
    today = max([datetime.now(UTC).date(), *(finding.date for finding in found)])
    text = merge_findings(yamlfile.read(source), found, source, today)
    return str(place.relative_to(worktree)), text.encode()


def _own_file(folder: Path, card_id: str) -> Path | None:
    """Return the repository's own file of a card; raises YamlError where it is that file's name."""
    for path in card_files(folder):
        try:
            if load_card(path).id == card_id:
                return path
        except YamlError:
            if path.stem == card_id:
                raise
    return None


def _on_branch(problem: Problem, worktree: Path | None) -> Problem:
    """Return a problem of a card, placed on the knowledge branch and not in a folder of the run."""
    if worktree is None or not problem.path.is_relative_to(worktree):
        return problem
    place = f"{KNOWLEDGE_BRANCH}:{problem.path.relative_to(worktree)}"
    return replace(problem, path=Path(place))


def _edit(files: Mapping[str, bytes], told: Mapping[str, Sequence[Finding]], run: str) -> Edit:
    all_of_it = [(card_id, finding) for card_id, found in told.items() for finding in found]
    run = run or all_of_it[0][1].run
    return Edit(
        files,
        summary=f"Refine {len(files)} card{'s' if len(files) != 1 else ''} from run {run}",
        explanation="\n".join(
            f"{card_id}{f' on {finding.model}' if finding.model else ''}: "
            f"{finding.verdict} ({finding.reason})"
            for card_id, finding in all_of_it
        ),
    )


def base_branch(stack: Stack) -> str:
    """Return the branch that is checked out, or the commit where none is."""
    name = git.git(stack.root, "rev-parse", "--symbolic-full-name", "HEAD").strip()
    return stack.commit if name == "HEAD" else name.removeprefix("refs/heads/")


def reproduce(options: RunOptions) -> list[str]:
    """Return the command that measures again, as argv, run where the repository is checked out."""
    argv = ["fvec", "run", ".", "--seed", str(options.seed)]
    if options.minutes is not None:
        argv += ["--budget", f"{options.minutes:g}"]
    if options.cookbook is not None:  # whose cards the reader has to bring
        argv += ["--cookbook", options.cookbook.resolve().name]
    for layer in options.layers or ():
        argv += ["--layer", layer.value]
    if options.shard is not None:
        argv += ["--shard", str(options.shard)]
    if options.agents is not None:  # whose settings the reader has to bring
        argv += [word for name in options.proposers for word in ("--proposer", name)]
        argv += ["--agents", "agents.yml"]
    return argv


def _branch_worktree(stack: Stack, tip: str, under: Path) -> Path:
    """Check out the knowledge branch; cards that only the stack changed since are the stack's."""
    worktree, parted = stack.worktree(tip, under), _parted(stack, tip)
    if parted is not None:
        ours = _changed(stack, parted, tip)
        newer = [name for name in _changed(stack, parted, stack.commit) if name not in ours]
        newer = [n for n in newer if PurePosixPath(n).is_relative_to(stack.manifest.knowledge)]
        if newer:
            source = f"--source={stack.commit}"
            git.git(worktree, "--literal-pathspecs", "restore", "--worktree", source, "--", *newer)
    return worktree


def _unmerged_tip(stack: Stack) -> str | None:
    """Return the branch's commit, None without one or once the stack has all of it.

    It has, too, where the branch was merged as one new commit, which is no descendant: then the
    stack had, at some commit since they parted, each file just as the branch has it.
    """
    tip = git.tip(stack.root, KNOWLEDGE_BRANCH)
    if tip is None or not git.git(stack.root, "rev-list", "-1", f"{stack.commit}..{tip}"):
        return None
    return None if _squashed(stack, tip) else tip


def _squashed(stack: Stack, tip: str) -> bool:
    """Whether the stack took over the content of every file that the branch changed."""
    parted = _parted(stack, tip)
    return parted is not None and all(
        _had(stack, parted, tip, name) for name in _changed(stack, parted, tip)
    )


def _parted(stack: Stack, tip: str) -> str | None:
    """Return the last commit that the stack and the branch have in common, None without one."""
    try:
        return git.git(stack.root, "merge-base", stack.commit, tip).strip()
    except ToolFailed:
        return None


def _changed(stack: Stack, parted: str, commit: str) -> list[str]:
    """Return the paths of the files that differ between two commits."""
    names = git.git(stack.root, "diff", "-z", "--name-only", "--no-renames", parted, commit)
    return [name for name in names.split("\0") if name]


def _had(stack: Stack, parted: str, tip: str, name: str) -> bool:
    """Whether the stack had `name` as the branch has it, at its commit or at one since `parted`."""
    blob = _blob(stack, tip, name)
    if blob is None or blob == _blob(stack, stack.commit, name):
        return blob == _blob(stack, stack.commit, name)
    since = f"{parted}..{stack.commit}"
    found = ("log", "-1", "--format=%H", f"--find-object={blob}", since, "--", f":(literal){name}")
    return bool(git.git(stack.root, *found).strip())


def _blob(stack: Stack, commit: str, name: str) -> str | None:
    """Return the hash of a file's content at a commit, None where there is no such file."""
    listed = git.git(stack.root, "ls-tree", "-z", commit, "--", f":(literal){name}")
    return listed.split()[2] if listed else None


def _advance(stack: Stack, commit: str) -> None:
    """Move the branch to `commit`, which is built on it: what reviewers committed there stays."""
    tip = git.tip(stack.root, KNOWLEDGE_BRANCH)
    ours = (f"--committer={git.BOT_EMAIL}", "--fixed-strings", "-1")
    if tip is not None and not git.git(stack.root, "rev-list", *ours, tip):
        raise InvalidInput(
            f"the branch {KNOWLEDGE_BRANCH} exists and the bot never committed to it",
            hint="rename it: the bot keeps what it learned on a branch of that name",
        )
    git.move_branch(stack.root, KNOWLEDGE_BRANCH, commit, tip)

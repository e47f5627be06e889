"""What a run takes from the cards before it and leaves in them after it.

General cards ship with fvec. What a run finds is written to copies of them in the serving
repository, on a branch of their own, so that its owners review knowledge like code.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from knowledge.cards import CookbookCard, Finding
from knowledge.refine import merge_finding
from knowledge.store import Cards
from layers import git
from layers.base import Edit, LayerName
from layers.errors import ToolFailed
from layers.evidence import KnowledgeRecord, Verdict
from layers.sampling import Past
from layers.session import RunOptions
from layers.stack import Stack

KNOWLEDGE_BRANCH = "fvec/knowledge"


def knowledge_folders(stack: Stack, out: Path) -> list[Path]:
    """Return the repository's own cards: those of its commit, then of the knowledge branch."""
    folders = [stack.root / stack.manifest.knowledge]
    if _branch_commit(stack) is not None:
        worktree = stack.worktree(KNOWLEDGE_BRANCH, out / "worktrees")
        folders.append(worktree / stack.manifest.knowledge)
    return folders


def past(cards: Cards) -> list[Past]:
    """Return what the findings say about each layer, for sampling."""
    return [
        Past(LayerName(card.layer), Verdict(finding.verdict))
        for card in cards.cookbook
        for finding in card.findings
    ]


def refine(
    stack: Stack, cards: Cards, findings: Mapping[str, Finding], out: Path
) -> KnowledgeRecord:
    """Merge findings into their cards in place and commit them on the knowledge branch."""
    files: dict[str, bytes | None] = {}
    for card_id, finding in sorted(findings.items()):
        card = cards.get(card_id)
        if not isinstance(card, CookbookCard):
            continue
        source = cards.path_of(card_id)
        text = merge_finding(source.read_text("utf-8"), finding, source)
        files[f"{stack.manifest.knowledge}/cookbook/{card.layer}/{card_id}.yaml"] = text.encode()
    edit = Edit(
        files,
        summary=f"Refine {len(files)} card{'s' if len(files) != 1 else ''} from run "
        f"{next(iter(findings.values())).run}",
        explanation="\n".join(
            f"{card_id}: {finding.verdict} ({finding.reason})"
            for card_id, finding in sorted(findings.items())
        ),
    )
    base = _branch_commit(stack) or stack.commit
    stack.commit_edit(base, KNOWLEDGE_BRANCH, edit, out / "worktrees")
    return KnowledgeRecord(branch=KNOWLEDGE_BRANCH, cards_changed=sorted(files))


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


def _branch_commit(stack: Stack) -> str | None:
    try:
        return git.resolve(stack.root, f"refs/heads/{KNOWLEDGE_BRANCH}")
    except ToolFailed:
        return None

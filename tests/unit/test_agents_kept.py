"""The memory of agents in a real repository: on the branch of the cards, and back from there."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from knowledge.memory import MOST_BYTES, MOST_TITLE, Memory, parsed, rendered
from knowledge.store import MEMORY_FILE, builtin_directory, card_files, load_cards
from knowledge.yamlfile import YamlError
from layers.agents.memory import backlog, kept
from layers.evidence import Verdict
from layers.loop import learning
from layers.repository.stack import Stack
from tests.agents_judged import ISSUE, MECHANISM, judged, plan
from tests.unit.test_learning import finding, run_git

TODAY = date(2026, 1, 20)
BRANCH = learning.KNOWLEDGE_BRANCH
PLACE = f"knowledge/{MEMORY_FILE}"
BEGUN = backlog.started(backlog.opened(Memory(), plan(), "run-1"), ISSUE)
SLOWER = judged(Verdict.REJECTED, "slower", 0.95)
LEARNED = backlog.noted(
    backlog.settled(BEGUN, SLOWER, backlog.saw_signs(SLOWER), MECHANISM, TODAY),
    "Next: the vocabulary.",
)


def written(root: Path, out: Path, memory: Memory, run: str = "run-1"):
    """One run's end: the memory is committed as the run left it."""
    with Stack.open(root) as stack:
        known = load_cards(builtin_directory(), *learning.knowledge_folders(stack, out))
        files = dict([kept.file_for(memory)])
        return learning.refine(stack, known, {}, out, kept=files, run=run)


def loaded(root: Path, out: Path) -> Memory:
    with Stack.open(root) as stack:
        return kept.load(stack, out, learning.knowledge_tip(stack))


def edit_on_branch(root: Path, tmp_path: Path, text: str) -> None:
    """A reviewer rewrites the memory on the bot's branch."""
    place = tmp_path / "reviewing"
    run_git(root, "worktree", "add", "--quiet", str(place), BRANCH)
    (place / PLACE).write_text(text)
    run_git(place, "commit", "--quiet", "--all", "--message", "Review")
    run_git(root, "worktree", "remove", str(place))


def test_a_memory_is_committed_beside_the_cards_and_the_next_run_goes_on_from_it(
    tiny_repo, tmp_path
) -> None:
    assert loaded(tiny_repo, tmp_path / "zero") == Memory()
    record = written(tiny_repo, tmp_path / "one", LEARNED)
    assert record.model_dump() == {"branch": BRANCH, "cards_changed": [PLACE], "problems": []}
    assert run_git(tiny_repo, "diff", "--name-only", "main", BRANCH).split() == [PLACE]
    assert run_git(tiny_repo, "show", f"{BRANCH}:{PLACE}") == rendered(LEARNED)
    assert run_git(tiny_repo, "status", "--porcelain") == ""
    assert loaded(tiny_repo, tmp_path / "two") == LEARNED


def test_cards_and_memory_of_a_run_are_one_commit(tiny_repo, tmp_path) -> None:
    with Stack.open(tiny_repo) as stack:
        known = load_cards(builtin_directory())
        files = dict([kept.file_for(LEARNED)])
        found = {"lookups-one-pass": [finding()]}
        learning.refine(stack, known, found, tmp_path / "out", kept=files, run="run-1")
    card = "knowledge/cookbook/features/lookups-one-pass.yaml"
    changed = run_git(tiny_repo, "show", "--format=", "--name-only", BRANCH).split()
    assert changed == [card, PLACE]
    folder = tmp_path / "checkout"
    run_git(tiny_repo, "worktree", "add", "--quiet", str(folder), BRANCH)
    own = load_cards(folder / "knowledge")
    assert [one.id for one in own.cookbook] == ["lookups-one-pass"]


def test_the_same_memory_makes_no_second_commit(tiny_repo, tmp_path) -> None:
    written(tiny_repo, tmp_path / "one", LEARNED)
    tip = run_git(tiny_repo, "rev-parse", BRANCH)
    written(tiny_repo, tmp_path / "two", LEARNED, run="run-2")
    assert run_git(tiny_repo, "rev-parse", BRANCH) == tip


def test_a_run_reads_the_branch_as_it_was_when_it_began(tiny_repo, tmp_path) -> None:
    written(tiny_repo, tmp_path / "one", LEARNED)
    with Stack.open(tiny_repo) as stack:
        tip = learning.knowledge_tip(stack)
    written(tiny_repo, tmp_path / "two", Memory(notes="later"), run="run-2")
    with Stack.open(tiny_repo) as stack:
        assert kept.load(stack, tmp_path / "three", tip) == LEARNED
        assert kept.load(stack, tmp_path / "four", None) == Memory()


def test_after_the_merge_it_is_the_stacks_own(tiny_repo, tmp_path) -> None:
    written(tiny_repo, tmp_path / "one", LEARNED)
    run_git(tiny_repo, "merge", "--quiet", "--no-ff", "--message", "Learn", BRANCH)
    (tiny_repo / PLACE).write_text(rendered(Memory(notes="its owners'")))
    run_git(tiny_repo, "commit", "--quiet", "--all", "--message", "Own it")
    assert loaded(tiny_repo, tmp_path / "two") == Memory(notes="its owners'")


def test_what_a_reviewer_wrote_during_the_run_stays(tiny_repo, tmp_path) -> None:
    written(tiny_repo, tmp_path / "one", LEARNED)
    before = loaded(tiny_repo, tmp_path / "two")
    after = backlog.opened(before, plan("another-issue"), "run-2")
    edited = before.model_copy(update={"findings": [], "notes": "A reviewer was here."})
    edit_on_branch(tiny_repo, tmp_path, rendered(edited))
    with Stack.open(tiny_repo) as stack:
        merged = kept.current(stack, tmp_path / "three", after, before)
    assert (merged.notes, merged.findings) == ("A reviewer was here.", [])
    assert [issue.id for issue in merged.issues] == [ISSUE, "another-issue"]


def test_a_broken_file_is_named_on_its_branch_and_not_overwritten(tiny_repo, tmp_path) -> None:
    written(tiny_repo, tmp_path / "one", LEARNED)
    edit_on_branch(tiny_repo, tmp_path, rendered(LEARNED).replace("abandoned", "gone"))
    with Stack.open(tiny_repo) as stack:
        tip = learning.knowledge_tip(stack)
        with pytest.raises(YamlError) as caught:
            kept.load(stack, tmp_path / "two", tip)
        assert caught.value.path == Path(f"{BRANCH}:{PLACE}")
        assert caught.value.line is not None
        with pytest.raises(YamlError, match=r"issues\.0\.status"):
            kept.current(stack, tmp_path / "three", LEARNED, LEARNED)


def test_a_memory_that_cannot_be_merged_is_kept_beside_and_named(tiny_repo, tmp_path) -> None:
    written(tiny_repo, tmp_path / "one", LEARNED)
    after = backlog.opened(LEARNED, plan("another-issue"), "run-2")
    broken = rendered(LEARNED).replace("abandoned", "gone")
    edit_on_branch(tiny_repo, tmp_path, broken)
    with Stack.open(tiny_repo) as stack:
        files = kept.files(
            stack, tmp_path / "two", after, loaded=LEARNED, run="run-2", secrets=("the vocabulary",)
        )
        known = load_cards(builtin_directory())
        record = learning.refine(stack, known, {}, tmp_path / "two", kept=files, run="run-2")

    place = "knowledge/memory-run-2.unmerged"
    assert record.branch == BRANCH
    assert record.cards_changed == [place]  # which the report shows
    assert run_git(tiny_repo, "show", f"{BRANCH}:{PLACE}") == broken
    text = run_git(tiny_repo, "show", f"{BRANCH}:{place}")
    first, _, rest = text.partition("\n")
    assert first.startswith(f"# not merged: {BRANCH}:{PLACE}:")
    assert "issues.0.status" in first
    found = parsed(text, Path(PLACE))  # renamed, it is a memory
    assert found == parsed(rest, Path(PLACE))
    assert [issue.id for issue in found.issues] == [ISSUE, "another-issue"]
    assert found.findings == LEARNED.findings
    assert "the vocabulary" not in text
    folder = tmp_path / "checkout"
    run_git(tiny_repo, "worktree", "add", "--quiet", str(folder), BRANCH)
    assert [path.name for path in card_files(folder / "knowledge")] == []


def test_a_memory_that_can_be_merged_is_the_file_itself(tiny_repo, tmp_path) -> None:
    written(tiny_repo, tmp_path / "one", LEARNED)
    after = backlog.opened(LEARNED, plan("another-issue"), "run-2")
    with Stack.open(tiny_repo) as stack:
        files = kept.files(stack, tmp_path / "two", after, loaded=LEARNED, run="run-2", secrets=())
    assert dict(files) == dict([kept.file_for(after)])


def test_a_folder_that_git_cannot_use_loses_no_memory(tiny_repo, tmp_path) -> None:
    written(tiny_repo, tmp_path / "one", LEARNED)
    out = tmp_path / "two"
    out.write_text("in the way")
    with Stack.open(tiny_repo) as stack:
        files = kept.files(stack, out, LEARNED, loaded=Memory(), run="../x y", secrets=())
    ((name, content),) = files.items()
    assert name == "memory-..-x-y.unmerged"
    assert content.decode().startswith("# not merged: ")
    assert str(tmp_path) not in content.decode()
    assert parsed(content.decode(), Path(name)).findings == LEARNED.findings


def test_a_long_memory_fits_beside_with_its_reason() -> None:
    many = [
        LEARNED.issues[0].model_copy(update={"id": f"issue-{n}", "why": "w" * 300})
        for n in range(60)
    ]
    long = LEARNED.model_copy(update={"issues": many})
    name, content = kept.beside(long, "", "why " * 500)
    assert name == "memory-run.unmerged"
    assert len(content) <= MOST_BYTES
    first = content.decode().partition("\n")[0]
    assert len(first) <= kept.MOST_REASON + len("# not merged: ")
    assert parsed(content.decode(), Path(name)).findings == LEARNED.findings


@pytest.mark.parametrize("linked", ["knowledge", PLACE])
def test_a_link_is_followed_nowhere(tiny_repo, tmp_path, linked) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / MEMORY_FILE).write_text(rendered(LEARNED))
    place = tiny_repo / linked
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(outside if linked == "knowledge" else outside / MEMORY_FILE)
    run_git(tiny_repo, "add", "--all")
    run_git(tiny_repo, "commit", "--quiet", "--message", "Link")
    with pytest.raises(YamlError, match="is a symbolic link") as caught:
        loaded(tiny_repo, tmp_path / "out")
    assert caught.value.path == place


def test_the_file_holds_nothing_in_progress_and_no_secret() -> None:
    secrets = ("hunter-two", "abcdef")
    memory = backlog.noted(BEGUN, "The password is hunter-two.")
    titles = "abcdef " * (MOST_TITLE // 7)  # each mark is longer than what it hides
    issue = memory.issues[0].model_copy(update={"title": titles.strip(), "why": "hunter-two"})
    name, content = kept.file_for(memory.model_copy(update={"issues": [issue]}), secrets)
    assert name == MEMORY_FILE
    assert len(content) <= MOST_BYTES
    text = content.decode()
    assert not any(secret in text for secret in secrets)
    found = parsed(text, Path(name))  # the marks fit into what a memory may hold
    assert found.issues[0].status == "open"
    assert "REDACTED" in found.notes

"""What a run learned goes to a branch of its own, in a real repository."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

import pytest

from bot.publishing.local import open_local
from knowledge.cards import Finding
from knowledge.refine import merge_findings
from knowledge.store import builtin_directory, load_cards
from knowledge.yamlfile import YamlError
from layers.base import Ground, LayerName
from layers.errors import InvalidInput
from layers.evidence import Iteration, Verdict
from layers.loop import learning
from layers.loop.sampling import Past
from layers.registry import LAYERS
from layers.repository import git
from layers.repository.stack import Stack
from layers.session import RunOptions
from layers.shards import Shard
from tests.render_fixture import accepted_iteration
from tests.unit.test_loop import hypothesis

GROUND = Ground(date(2026, 1, 20), "tiny", "b" * 40, "two cores")
CARD = "knowledge/cookbook/features/lookups-one-pass.yaml"
BRANCH = "fvec/knowledge"


def finding(**changes: object) -> Finding:
    values: dict[str, object] = {
        "date": date(2026, 1, 2),
        "stack": "tiny",
        "commit": "a" * 40,
        "verdict": "accepted",
        "reason": "gain_confirmed",
        "gain": 1.4,
        "ci": (1.3, 1.5),
        "hardware": "two cores",
        "run": "run-1",
    }
    return Finding.model_validate(values | changes)


def run_git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Reviewer", "-c", "user.email=reviewer@example.com"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=root, check=True, capture_output=True, text=True
    )
    return done.stdout


def refine(root: Path, out: Path, **findings: Finding):
    """One run's end: read the cards as a run does, merge the findings into them."""
    with Stack.open(root) as stack:
        cards = load_cards(builtin_directory(), *learning.knowledge_folders(stack, out))
        by_id = {name.replace("_", "-"): [found] for name, found in findings.items()}
        return learning.refine(stack, cards, by_id, out)


def branch_cards(root: Path, tmp_path: Path):
    with Stack.open(root) as stack:
        return load_cards(*learning.knowledge_folders(stack, tmp_path / "reading"))


def commit_on_branch(root: Path, tmp_path: Path, old: str, new: str) -> None:
    """A reviewer edits the card on the bot's branch."""
    place = tmp_path / "reviewing"
    run_git(root, "worktree", "add", "--quiet", str(place), BRANCH)
    text = (place / CARD).read_text()
    assert text.count(old) == 1
    (place / CARD).write_text(text.replace(old, new))
    run_git(place, "commit", "--quiet", "--all", "--message", "Say it better")
    run_git(root, "worktree", "remove", str(place))


def test_findings_are_committed_on_a_branch_and_the_checkout_is_untouched(tiny_repo, tmp_path):
    head = run_git(tiny_repo, "rev-parse", "HEAD")
    record = refine(tiny_repo, tmp_path / "out", lookups_one_pass=finding())
    assert record.model_dump() == {"branch": BRANCH, "cards_changed": [CARD], "problems": []}
    assert run_git(tiny_repo, "rev-parse", "HEAD") == head
    assert run_git(tiny_repo, "status", "--porcelain") == ""
    assert run_git(tiny_repo, "diff", "--name-only", "main", BRANCH).split() == [CARD]
    subject, *body = run_git(tiny_repo, "log", "-1", "--format=%B", BRANCH).split("\n")
    assert subject == "Refine 1 card from run run-1"
    assert "lookups-one-pass: accepted (gain_confirmed)" in body
    assert run_git(tiny_repo, "worktree", "list").count("\n") == 1


def test_the_packaged_card_is_copied_whole_and_only_its_findings_are_new(tiny_repo, tmp_path):
    refine(tiny_repo, tmp_path / "out", lookups_one_pass=finding())
    packaged = builtin_directory() / "cookbook/features/lookups-one-pass.yaml"
    text = run_git(tiny_repo, "show", f"{BRANCH}:{CARD}")
    kept = packaged.read_text().replace("findings: []\n", "")
    assert text.startswith(kept.rstrip("\n"))
    (card,) = branch_cards(tiny_repo, tmp_path).cookbook
    assert card.findings == [finding()]


def test_a_second_run_refines_the_cards_of_the_branch(tiny_repo, tmp_path):
    refine(tiny_repo, tmp_path / "one", lookups_one_pass=finding())
    first = run_git(tiny_repo, "rev-parse", BRANCH).strip()
    second = finding(date=date(2026, 2, 2), commit="b" * 40, run="run-2", verdict="rejected")
    refine(tiny_repo, tmp_path / "two", lookups_one_pass=second)
    (card,) = branch_cards(tiny_repo, tmp_path).cookbook
    assert card.findings == [second, finding()]
    assert run_git(tiny_repo, "rev-parse", f"{BRANCH}~1").strip() == first


def test_what_reviewers_write_on_the_branch_is_kept(tiny_repo, tmp_path):
    refine(tiny_repo, tmp_path / "one", lookups_one_pass=finding())
    title = next(
        line
        for line in run_git(tiny_repo, "show", f"{BRANCH}:{CARD}").splitlines()
        if line.startswith("title: ")
    )
    commit_on_branch(tiny_repo, tmp_path, title, "title: Look inputs up once  # reviewed")
    reviewed = run_git(tiny_repo, "rev-parse", BRANCH).strip()
    later = finding(date=date(2026, 2, 2), commit="b" * 40, run="run-2")
    refine(tiny_repo, tmp_path / "two", lookups_one_pass=later)
    text = run_git(tiny_repo, "show", f"{BRANCH}:{CARD}")
    assert "title: Look inputs up once  # reviewed\n" in text
    assert run_git(tiny_repo, "rev-parse", f"{BRANCH}~1").strip() == reviewed
    (card,) = branch_cards(tiny_repo, tmp_path).cookbook
    assert [found.run for found in card.findings] == ["run-2", "run-1"]


def test_after_the_merge_the_branch_starts_from_the_stack_again(tiny_repo, tmp_path):
    refine(tiny_repo, tmp_path / "one", lookups_one_pass=finding())
    run_git(tiny_repo, "merge", "--quiet", "--no-ff", "--message", "Learn", BRANCH)
    text = (tiny_repo / CARD).read_text()
    (tiny_repo / CARD).write_text(f"# kept by its owners\n{text}")
    run_git(tiny_repo, "commit", "--quiet", "--all", "--message", "Own it")
    later = finding(date=date(2026, 2, 2), commit="b" * 40, run="run-2")
    refine(tiny_repo, tmp_path / "two", lookups_one_pass=later)
    assert run_git(tiny_repo, "rev-parse", f"{BRANCH}~1") == run_git(tiny_repo, "rev-parse", "main")
    assert run_git(tiny_repo, "show", f"{BRANCH}:{CARD}").startswith("# kept by its owners\n")


def test_after_a_squash_merge_the_branch_starts_from_the_stack_again(tiny_repo, tmp_path):
    refine(tiny_repo, tmp_path / "one", lookups_one_pass=finding())
    run_git(tiny_repo, "merge", "--quiet", "--squash", BRANCH)
    run_git(tiny_repo, "commit", "--quiet", "--message", "Learn")
    text = (tiny_repo / CARD).read_text()
    (tiny_repo / CARD).write_text(f"# kept by its owners\n{text}")
    run_git(tiny_repo, "commit", "--quiet", "--all", "--message", "Own it")
    later = finding(date=date(2026, 2, 2), commit="b" * 40, run="run-2")
    refine(tiny_repo, tmp_path / "two", lookups_one_pass=later)
    assert run_git(tiny_repo, "rev-parse", f"{BRANCH}~1") == run_git(tiny_repo, "rev-parse", "main")
    text = run_git(tiny_repo, "show", f"{BRANCH}:{CARD}")
    assert text.startswith("# kept by its owners\n")
    assert text.count("- date: ") == 2


def test_a_squash_merge_of_an_older_state_leaves_the_branch_as_it_is(tiny_repo, tmp_path):
    refine(tiny_repo, tmp_path / "one", lookups_one_pass=finding())
    run_git(tiny_repo, "merge", "--quiet", "--squash", BRANCH)
    run_git(tiny_repo, "commit", "--quiet", "--message", "Learn")
    old = run_git(tiny_repo, "rev-parse", BRANCH).strip()
    run_git(tiny_repo, "branch", "--force", BRANCH, old)
    commit_on_branch(tiny_repo, tmp_path, "id: lookups-one-pass\n", "id: lookups-one-pass  # id\n")
    tip = run_git(tiny_repo, "rev-parse", BRANCH).strip()
    later = finding(date=date(2026, 2, 2), commit="b" * 40, run="run-2")
    refine(tiny_repo, tmp_path / "two", lookups_one_pass=later)
    assert run_git(tiny_repo, "rev-parse", f"{BRANCH}~1").strip() == tip


def test_the_same_run_merged_twice_makes_one_commit(tiny_repo, tmp_path):
    first = refine(tiny_repo, tmp_path / "one", lookups_one_pass=finding())
    tip = run_git(tiny_repo, "rev-parse", BRANCH)
    assert refine(tiny_repo, tmp_path / "two", lookups_one_pass=finding()) == first
    assert run_git(tiny_repo, "rev-parse", BRANCH) == tip


def half_written(root: Path, tmp_path: Path) -> None:
    """Someone's editor died over the card on the branch."""
    refine(root, tmp_path / "one", lookups_one_pass=finding())
    place = tmp_path / "reviewing"
    run_git(root, "worktree", "add", "--quiet", str(place), BRANCH)
    text = (place / CARD).read_text()
    (place / CARD).write_text(text[: text.index("sources:") + 20])
    run_git(place, "commit", "--quiet", "--all", "--message", "Oops")
    run_git(root, "worktree", "remove", str(place))


def test_a_half_written_card_is_named_on_its_branch_before_anything_is_measured(
    tiny_repo, tmp_path
):
    half_written(tiny_repo, tmp_path)
    with Stack.open(tiny_repo) as stack, pytest.raises(YamlError) as caught:
        learning.cards(Opened(stack, tmp_path / "two"), None, learning.knowledge_tip(stack))
    assert caught.value.path == Path(f"{BRANCH}:{CARD}")
    assert caught.value.line is not None


def test_a_file_of_the_repositorys_own_that_is_no_card_is_told_why_it_is_read(tiny_repo, tmp_path):
    other = tiny_repo / "knowledge" / "questions.yml"
    other.parent.mkdir()
    other.write_text("what: is fvec?\n")
    run_git(tiny_repo, "add", "--all")
    run_git(tiny_repo, "commit", "--quiet", "--message", "Keep what we know")
    with Stack.open(tiny_repo) as stack, pytest.raises(YamlError, match="kind: is missing") as told:
        learning.cards(Opened(stack, tmp_path / "out"), None, learning.knowledge_tip(stack))
    assert told.value.path == other
    assert "`knowledge` of the manifest" in (told.value.hint or "")


def test_a_card_half_written_meanwhile_hinders_no_other_and_loses_nothing(tiny_repo, tmp_path):
    half_written(tiny_repo, tmp_path)
    before = run_git(tiny_repo, "show", f"{BRANCH}:{CARD}")
    known = load_cards(builtin_directory())
    with Stack.open(tiny_repo) as stack:
        found = {"lookups-one-pass": [finding(run="run-2")], "queue-delay": [finding(run="run-2")]}
        record = learning.refine(stack, known, found, tmp_path / "two")
    assert record.cards_changed == ["knowledge/cookbook/config/queue-delay.yaml"]
    assert record.problems[0].startswith(f"{BRANCH}:{CARD}:")
    assert run_git(tiny_repo, "show", f"{BRANCH}:{CARD}") == before


@dataclass(frozen=True)
class Opened:
    stack: Stack
    out: Path


def test_a_card_that_the_repository_keeps_elsewhere_is_refined_there(tiny_repo, tmp_path):
    own = tiny_repo / "knowledge/ours.yaml"
    own.parent.mkdir()
    own.write_bytes((builtin_directory() / "cookbook/features/lookups-one-pass.yaml").read_bytes())
    run_git(tiny_repo, "add", "--all")
    run_git(tiny_repo, "commit", "--quiet", "--message", "Keep the card")
    record = refine(tiny_repo, tmp_path / "out", lookups_one_pass=finding())
    assert record.cards_changed == ["knowledge/ours.yaml"]
    (card,) = branch_cards(tiny_repo, tmp_path).cookbook
    assert card.findings == [finding()]


def test_a_finding_of_an_unknown_card_makes_no_commit(tiny_repo, tmp_path):
    record = refine(tiny_repo, tmp_path / "out", no_such_card=finding())
    assert record.model_dump() == {"branch": None, "cards_changed": [], "problems": []}
    assert run_git(tiny_repo, "branch", "--list", BRANCH) == ""


def test_a_branch_that_was_never_the_bots_is_left_alone(tiny_repo, tmp_path):
    run_git(tiny_repo, "branch", BRANCH)
    before = run_git(tiny_repo, "rev-parse", BRANCH)
    with pytest.raises(InvalidInput, match="the bot never committed to it"):
        refine(tiny_repo, tmp_path / "out", lookups_one_pass=finding())
    assert run_git(tiny_repo, "rev-parse", BRANCH) == before


def test_findings_weigh_the_sampling_of_layers(tiny_repo, tmp_path):
    refine(tiny_repo, tmp_path / "out", lookups_one_pass=finding(), queue_delay=finding())
    told = learning.past(branch_cards(tiny_repo, tmp_path), GROUND)
    weight = 0.5 ** (18 / 90)
    assert sorted(told, key=lambda p: p.layer) == [
        Past(LayerName.CONFIG, Verdict.ACCEPTED, weight),
        Past(LayerName.FEATURES, Verdict.ACCEPTED, weight),
    ]


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        ("rejected", "lookups-one-pass: rejected on 2026-01-02 at aaaaaaaaaaaa (below_floor)"),
        ("accepted", None),
        ("inconclusive", None),
        ("failed", None),
    ],
)
def test_only_a_rejection_on_the_same_ground_answers(tiny_repo, tmp_path, verdict, told):
    made = finding(verdict=verdict, reason="below_floor")
    refine(tiny_repo, tmp_path / "out", lookups_one_pass=made)
    known = branch_cards(tiny_repo, tmp_path)
    asked = [hypothesis("lookups-one-pass")]
    assert learning.weigh(known, GROUND, asked).answered.get(asked[0].change) == told
    elsewhere = Ground(GROUND.date, "other", GROUND.commit, GROUND.hardware)
    assert learning.weigh(known, elsewhere, asked).answered == {}


def cards_with(tmp_path: Path, **findings: list[Finding]):
    """The packaged cards, with findings in them."""
    folder = tmp_path / "own"
    for name, found in findings.items():
        (source,) = builtin_directory().glob(f"cookbook/*/{name.replace('_', '-')}.yaml")
        place = folder / source.relative_to(builtin_directory())
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(merge_findings(source.read_text(), found))
    return load_cards(builtin_directory(), folder)


def test_findings_move_the_expected_gain_and_the_reason_says_so(tmp_path):
    small = finding(verdict="inconclusive", gain=1.05, ci=(1.02, 1.08), share=0.5)
    known = cards_with(tmp_path, concat_to_slices=[small])
    asked = replace(hypothesis("concat-to-slices"), expected_gain=0.25, best_gain=0.5)
    ((told,), answered, _) = weighed(known, asked)
    assert answered == {}
    assert told.expected_gain < 0.25
    assert told.why.startswith(f"because; {told.expected_gain:.0%} of it may go by the card's 25%")
    assert "inconclusive on 2026-01-02" in told.why


def weighed(known, *asked, on_top=()):
    told = learning.weigh(known, GROUND, asked, on_top)
    return told.hypotheses, told.answered, told.together


L, N, C = "lookups-one-pass on m", "native-string-tensors on m", "concat-to-slices on m"
ASKED = tuple(hypothesis(name.partition(" ")[0]) for name in (N, L, C))


def test_changes_that_were_accepted_here_are_measured_together_in_their_old_order(tmp_path):
    known = cards_with(
        tmp_path,
        lookups_one_pass=[finding()],
        native_string_tensors=[finding(on_top=[L])],
        concat_to_slices=[finding(on_top=["gone on m"])],  # what it stood on is not to be had
    )
    _, _, joint = weighed(known, *ASKED)
    assert joint.changes == (L, N)
    assert weighed(known, *ASKED[1:])[2] is None
    assert weighed(known, ASKED[0], ASKED[2], on_top=[L])[2] is None
    again = weighed(known, *ASKED, on_top=["gone on m"])[2]
    assert (again.changes, again.on_top) == ((L, C, N), ("gone on m",))


@pytest.mark.parametrize(
    "changes",
    [
        {"date": date(2025, 6, 1)},
        {"hardware": "four cores"},
        {"stack": "other"},
        {"verdict": "rejected"},
        {"verdict": "inconclusive"},
    ],
)
def test_what_was_accepted_on_other_ground_is_tried_alone(tmp_path, changes):
    known = cards_with(
        tmp_path, lookups_one_pass=[finding()], native_string_tensors=[finding(**changes)]
    )
    assert weighed(known, *ASKED)[2] is None


def test_code_that_changed_since_its_proof_is_tried_alone(tmp_path):
    proof = {"model": "m", "fvec": "1", "code": {"m": "as it was"}}
    known = cards_with(
        tmp_path, lookups_one_pass=[finding(**proof)], native_string_tensors=[finding(**proof)]
    )
    here = replace(GROUND, fvec="1", code={"m": "as it was"})
    assert learning.weigh(known, here, ASKED).together is not None
    for moved in ({"code": {"m": "new"}}, {"fvec": "2"}):
        assert learning.weigh(known, replace(here, **moved), ASKED).together is None


def test_a_finding_that_a_reviewer_deletes_on_the_branch_stays_deleted(tiny_repo, tmp_path):
    refine(tiny_repo, tmp_path / "one", lookups_one_pass=finding())
    run_git(tiny_repo, "merge", "--quiet", "--no-ff", "--message", "Learn", BRANCH)
    wrong = finding(date=date(2026, 2, 2), commit="b" * 40, run="run-2", verdict="rejected")
    refine(tiny_repo, tmp_path / "two", lookups_one_pass=wrong)
    text = run_git(tiny_repo, "show", f"{BRANCH}:{CARD}")
    first = text[text.index("  - date: 2026-01-02") :]
    commit_on_branch(tiny_repo, tmp_path, first, "")
    with Stack.open(tiny_repo) as stack:
        folders = learning.knowledge_folders(stack, tmp_path / "reading")
        card = load_cards(builtin_directory(), *folders).get("lookups-one-pass")
    assert [found.run for found in card.findings] == ["run-2"]


def test_a_card_that_only_the_stack_changed_since_is_the_stacks(tiny_repo, tmp_path):
    refine(tiny_repo, tmp_path / "one", lookups_one_pass=finding(), queue_delay=finding())
    run_git(tiny_repo, "merge", "--quiet", "--no-ff", "--message", "Learn", BRANCH)
    other = finding(date=date(2026, 2, 2), commit="b" * 40, run="run-2")
    refine(tiny_repo, tmp_path / "two", queue_delay=other)
    text = (tiny_repo / CARD).read_text()
    (tiny_repo / CARD).write_text(text[: text.index("findings:\n")])
    run_git(tiny_repo, "commit", "--quiet", "--all", "--message", "It was wrong")
    with Stack.open(tiny_repo) as stack:
        folders = learning.knowledge_folders(stack, tmp_path / "reading")
        known = load_cards(builtin_directory(), *folders)
    assert known.get("lookups-one-pass").findings == []
    assert [found.run for found in known.get("queue-delay").findings] == ["run-2", "run-1"]
    later = finding(date=date(2026, 2, 3), commit="c" * 40, run="run-3")
    refine(tiny_repo, tmp_path / "three", lookups_one_pass=later)
    assert run_git(tiny_repo, "show", f"{BRANCH}:{CARD}").count("- date: ") == 1
    assert run_git(tiny_repo, "diff", "--name-only", f"{BRANCH}~1", BRANCH).split() == [CARD]


def test_the_digest_of_a_models_code_is_of_its_code_alone(tiny_repo, tmp_path):
    def code():
        with Stack.open(tiny_repo) as stack:
            return stack.code()

    before = code()
    place = tiny_repo / "models" / min(before)
    (place / "1" / "weights.bin").write_bytes(b"new")
    (tiny_repo / "notes.py").write_text("")
    run_git(tiny_repo, "add", "--all")
    run_git(tiny_repo, "commit", "--quiet", "--message", "Train")
    assert code() == before
    (place / "1" / "helper.py").write_text("")
    run_git(tiny_repo, "add", "--all")
    run_git(tiny_repo, "commit", "--quiet", "--message", "Help")
    assert code().keys() == before.keys()
    assert code() != before


def test_what_failed_together_is_not_joined_again_and_one_joint_success_proves_no_member(tmp_path):
    def joint(**changes):
        return finding(together=[L, N], **changes)

    alone = {"lookups_one_pass": [finding()], "native_string_tensors": [finding()]}
    failed = {name: [*found, joint(verdict="rejected")] for name, found in alone.items()}
    assert weighed(cards_with(tmp_path / "1", **failed), *ASKED)[2] is None
    old = finding(date=date(2025, 6, 1))
    stale = {name: [joint(), old] for name in alone}
    assert weighed(cards_with(tmp_path / "2", **stale), *ASKED)[2] is None
    good = {name: [joint(), *found] for name, found in alone.items()}
    assert weighed(cards_with(tmp_path / "3", **good), *ASKED)[2] is not None


def test_the_base_of_a_pull_request_is_the_branch_that_is_checked_out(tiny_repo):
    with Stack.open(tiny_repo) as stack:
        assert learning.base_branch(stack) == "main"
        run_git(tiny_repo, "tag", "main")  # git then calls the branch heads/main
        assert learning.base_branch(stack) == "main"
    run_git(tiny_repo, "checkout", "--quiet", "--detach")
    with Stack.open(tiny_repo) as stack:
        assert learning.base_branch(stack) == stack.commit


def test_what_a_run_was_told_is_in_the_command_that_measures_again():
    options = RunOptions(
        Path("out"),
        (LayerName.SERVER,),
        minutes=1.5,
        seed=7,
        cookbook=Path("their/cards"),
        forge=open_local,
        shard=Shard(1, 2),
    )
    assert learning.reproduce(options) == [
        *("fvec", "run", ".", "--seed", "7", "--budget", "1.5", "--cookbook", "cards"),
        *("--layer", "server", "--shard", "1/2"),
    ]
    plain = replace(options, layers=None, minutes=None, cookbook=None, shard=None)
    assert learning.reproduce(plain) == ["fvec", "run", ".", "--seed", "7"]


def test_the_branch_is_not_moved_under_a_reviewer_who_has_it_checked_out(tiny_repo, tmp_path):
    refine(tiny_repo, tmp_path / "one", lookups_one_pass=finding())
    tip = run_git(tiny_repo, "rev-parse", BRANCH)
    place = tmp_path / "reviewing"
    run_git(tiny_repo, "worktree", "add", "--quiet", str(place), BRANCH)
    with pytest.raises(InvalidInput, match=f"{BRANCH} is checked out in {place}"):
        refine(tiny_repo, tmp_path / "two", lookups_one_pass=finding(run="run-2"))
    assert run_git(tiny_repo, "rev-parse", BRANCH) == tip
    assert run_git(place, "status", "--porcelain") == ""


def test_the_commits_on_the_branch_are_the_bots(tiny_repo, tmp_path):
    refine(tiny_repo, tmp_path / "out", lookups_one_pass=finding())
    assert run_git(tiny_repo, "log", "-1", "--format=%ce", BRANCH).strip() == git.BOT_EMAIL


@dataclass(frozen=True)
class Taught:
    """A layer whose finding is the iteration's verdict and model."""

    def refine(self, iteration, ground):
        if iteration.verdict is Verdict.FAILED:
            return None
        model = iteration.hypothesis.model
        return finding(verdict=iteration.verdict.value, reason=model, commit=ground.commit)


def tried(number: int, card: str, model: str, verdict: Verdict) -> Iteration:
    base = accepted_iteration()
    hypothesis = base.hypothesis.model_copy(update={"model": model})
    update = {"n": number, "card": card, "hypothesis": hypothesis, "verdict": verdict}
    return base.model_copy(update=update)


def test_every_model_that_a_card_was_tried_on_has_a_finding_of_its_own():
    ground = Ground(date(2026, 1, 2), "tiny", "c" * 40, "two cores")
    found = learning.findings(
        [
            tried(1, "one", "a", Verdict.ACCEPTED),
            tried(2, "one", "b", Verdict.REJECTED),
            tried(3, "two", "a", Verdict.REJECTED),
            tried(4, "two", "b", Verdict.INCONCLUSIVE),
            tried(5, "three", "a", Verdict.FAILED),
        ],
        {LayerName.FEATURES: Taught()},
        ground,
    )
    told = {card: [(f.verdict, f.reason) for f in made] for card, made in found.items()}
    assert told == {
        "one": [("accepted", "a"), ("rejected", "b")],
        "two": [("rejected", "a"), ("inconclusive", "b")],
    }


def test_a_finding_names_the_code_and_the_version_of_fvec_that_it_is_of():
    code = {"a": "1", "b": "2", "c": "3"}
    ground = Ground(date(2026, 1, 2), "tiny", "c" * 40, "two cores", fvec="0.1.0", code=code)
    alone = tried(1, "one", "a", Verdict.REJECTED)
    joint = alone.hypothesis.model_copy(update={"together": ["one on a", "two on b"]})
    both = alone.model_copy(update={"hypothesis": joint})
    found = learning.findings([alone, both], LAYERS, ground)
    told = {card: [(f.model, f.fvec, f.code) for f in made] for card, made in found.items()}
    assert told == {
        "one": [("a", "0.1.0", {"a": "1"}), ("a", "0.1.0", {"a": "1", "b": "2"})],
        "two": [("b", "0.1.0", {"a": "1", "b": "2"})],
    }


def test_of_a_change_taken_out_the_share_without_the_others_is_not_written_down():
    taken_out = tried(1, "one", "a", Verdict.REJECTED)
    taken_out = taken_out.model_copy(update={"reason": "no_gain_on_top_of_others"})
    ((found,),) = learning.findings([taken_out], LAYERS, GROUND).values()
    assert found.share is None


def test_numbers_that_no_card_may_hold_are_left_out_of_a_finding():
    odd = tried(1, "one", "a", Verdict.REJECTED)
    end = odd.end_to_end.model_copy(update={"throughput_ratio": 1e-9, "ci": (0.0, 1.0)})
    small = odd.hypothesis.model_copy(update={"share": 0.0})
    odd = odd.model_copy(update={"end_to_end": end, "hypothesis": small})
    ((found,),) = learning.findings([odd], LAYERS, GROUND).values()
    assert (found.gain, found.ci, found.share) == (None, None, None)


def test_changes_tried_together_leave_a_finding_in_the_card_of_each():
    names = ["one on a", "two on b"]
    base = tried(1, "together-0", "a", Verdict.ACCEPTED)
    joint = base.hypothesis.model_copy(update={"together": names, "on_top": ["zero on a"]})
    ground = Ground(date(2026, 1, 2), "tiny", "c" * 40, "two cores")
    iteration = base.model_copy(update={"hypothesis": joint})
    found = learning.findings([iteration], LAYERS, ground)
    told = {card: [(f.model, f.together, f.on_top) for f in made] for card, made in found.items()}
    assert told == {
        "one": [("a", names, ["zero on a"])],
        "two": [("b", names, ["zero on a"])],
    }

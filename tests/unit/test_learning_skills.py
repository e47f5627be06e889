"""What agents taught: it goes to the skill that a contract names, and to nothing else."""

from __future__ import annotations

from datetime import date

from knowledge.cards import Finding, SkillCard
from knowledge.schema import check
from layers.base import Ground, LayerName, Sign
from layers.evidence import Iteration, Verdict
from layers.loop import learning
from layers.registry import LAYERS
from layers.repository.stack import Stack
from layers.story import ContractRecord, SignRecord
from tests.unit.test_learning import BRANCH, Opened, branch_cards, finding, refine, run_git, tried

GROUND = Ground(date(2026, 1, 2), "tiny", "c" * 40, "two cores", fvec="0.1.0", run="run-1")
SKILL = "knowledge/skills/algorithm/partial-top-k.yaml"


def written(number: int, issue: str, verdict: Verdict, skill: str = "partial-top-k") -> Iteration:
    """A candidate that an agent wrote, in a layer that no rewrite is of."""
    base = tried(number, issue, "features", verdict)
    contract = ContractRecord(
        claim="sorting costs",
        expected=(1.05, 1.2),
        activation=[SignRecord(sign=Sign.RUNS, model="features", subject="models/f.py:select")],
        falsifier="select is on no stack",
        skill=skill,
    )
    update = {"contract": contract, "proposer": "anthropic"}
    hypothesis = base.hypothesis.model_copy(update=update)
    return base.model_copy(update={"hypothesis": hypothesis, "layer": LayerName.KERNEL})


def test_a_finding_goes_to_the_skill_of_its_contract_with_its_issue_newest_first() -> None:
    found = learning.findings(
        [
            written(1, "top-k", Verdict.REJECTED),
            tried(2, "lookups-one-pass", "features", Verdict.ACCEPTED),
            written(3, "top-k", Verdict.ACCEPTED),
            written(4, "threads", Verdict.REJECTED, "threads-of-an-instance"),
            written(5, "lookups-one-pass", Verdict.ACCEPTED, skill=""),
        ],
        LAYERS,
        GROUND,
    )
    told = {card: [(f.issue, f.verdict) for f in made] for card, made in found.items()}
    assert told == {
        "lookups-one-pass": [("", "accepted")],
        "partial-top-k": [("top-k", "accepted"), ("top-k", "rejected")],
        "threads-of-an-instance": [("threads", "rejected")],
    }
    one = found["partial-top-k"][0]
    assert (one.model, one.stack, one.run, one.fvec) == ("features", "tiny", "run-1", "0.1.0")


def test_a_skill_is_refined_on_the_branch_in_its_own_folder(tiny_repo, tmp_path) -> None:
    record = refine(tiny_repo, tmp_path / "one", partial_top_k=finding(issue="top-k"))
    assert (record.branch, record.cards_changed, record.problems) == (BRANCH, [SKILL], [])
    later = finding(date=date(2026, 2, 2), commit="b" * 40, run="run-2", issue="top-k")
    refine(tiny_repo, tmp_path / "two", partial_top_k=later)
    cards = branch_cards(tiny_repo, tmp_path)
    assert [(skill.id, skill.findings) for skill in cards.skills] == [
        ("partial-top-k", [later, finding(issue="top-k")])
    ]
    assert cards.cookbook == ()
    assert run_git(tiny_repo, "diff", "--name-only", "main", BRANCH).split() == [SKILL]
    with Stack.open(tiny_repo) as stack:
        folders = learning.knowledge_folders(stack, tmp_path / "checking")
        assert check(folders[-1:], date(2026, 2, 2)) == []


def test_the_tries_of_one_issue_in_one_run_leave_one_finding_the_last(tiny_repo, tmp_path) -> None:
    tries = [written(1, "top-k", Verdict.REJECTED), written(2, "top-k", Verdict.ACCEPTED)]
    tries += [written(3, "other", Verdict.INCONCLUSIVE)]
    with Stack.open(tiny_repo) as stack:
        known = learning.cards(Opened(stack, tmp_path / "out"), None, None)
        found = learning.findings(tries, LAYERS, GROUND)
        learning.refine(stack, known, found, tmp_path / "out")
    (skill,) = branch_cards(tiny_repo, tmp_path).skills
    assert {(f.issue, f.verdict) for f in skill.findings} == {
        ("top-k", "accepted"),
        ("other", "inconclusive"),
    }


def test_a_card_of_the_cookbook_takes_nothing_that_an_agent_found(tiny_repo, tmp_path) -> None:
    tries = [written(1, "top-k", Verdict.REJECTED, skill="lookups-one-pass")]
    tries += [written(2, "top-k", Verdict.REJECTED, skill="no-such-skill")]
    tries += [written(3, "top-k", Verdict.REJECTED, skill="triton-2-51")]  # a card of facts
    with Stack.open(tiny_repo) as stack:
        known = learning.cards(Opened(stack, tmp_path / "out"), None, None)
        found = learning.findings(tries, LAYERS, GROUND)
        record = learning.refine(stack, known, found, tmp_path / "out")
    assert record.model_dump() == {"branch": None, "cards_changed": [], "problems": []}
    assert run_git(tiny_repo, "branch", "--list", BRANCH) == ""


def test_findings_of_skills_do_not_weigh_the_sampling_of_layers(tiny_repo, tmp_path) -> None:
    refine(tiny_repo, tmp_path / "out", partial_top_k=finding(issue="top-k"))
    assert learning.past(branch_cards(tiny_repo, tmp_path), GROUND) == []


def test_a_repository_may_bring_a_skill_of_its_own(tiny_repo, tmp_path) -> None:
    own = tiny_repo / "knowledge/skills/framework/ours.yaml"
    own.parent.mkdir(parents=True)
    own.write_text(
        "schema: fvec.card/1\nkind: skill\nid: ours\ntier: framework\ntitle: Ours\ntags: [ours]\n"
        "when: always\nhow: [so]\nactivation: seen\npitfalls: [none known]\n"
        "sources: [{title: ours, url: 'https://example.com'}]\n"
    )
    run_git(tiny_repo, "add", "--all")
    run_git(tiny_repo, "commit", "--quiet", "--message", "Our skill")
    with Stack.open(tiny_repo) as stack:
        known = learning.cards(Opened(stack, tmp_path / "out"), None, None)
        skill = known.get("ours")
        assert isinstance(skill, SkillCard)
        found: dict[str, list[Finding]] = {"ours": [finding(issue="top-k")]}
        record = learning.refine(stack, known, found, tmp_path / "out")
    assert record.cards_changed == ["knowledge/skills/framework/ours.yaml"]

"""Evidence measured again: what is refused before measuring, and what the comparison answers."""

import hashlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from bot import cli
from bot.render import judge_terminal, judgement
from layers import reverify, session
from layers.errors import InvalidInput, Missing
from layers.events import Silent
from layers.evidence import Gate, GateResult, JudgeReport, Verdict, VerifyReport
from layers.judge import JudgeOptions
from layers.manifest import SandboxMode
from layers.measure.stats import Estimate
from layers.record import lock
from tests.e2e.proposals import git
from tests.golden_files import assert_golden
from tests.render_fixture import ENVIRONMENT, evidence
from tests.unit.test_judge_rendering import accepted, rejected, shown

PATCH = b"diff --git a/x b/x\n"


def folder_of(root: Path, **changes: object) -> Path:
    """Write evidence whose JSON differs at `a__b` paths; a value of None removes the key."""
    document = evidence().model_dump(mode="json", by_alias=True)
    document["iteration"]["patch_sha256"] = hashlib.sha256(PATCH).hexdigest()
    for place, value in changes.items():
        *parents, last = place.split("__")
        target = document
        for name in parents:
            target = target[int(name) if name.isdigit() else name]
        if value is None:
            del target[last]
        else:
            target[last] = value
    (root / "evidence.json").write_text(json.dumps(document))
    (root / "patch.diff").write_bytes(PATCH)
    return root


def test_evidence_is_read_from_its_folder_or_its_file(tmp_path):
    folder = folder_of(tmp_path)
    by_folder, by_file = reverify.load(folder), reverify.load(folder / "evidence.json")
    assert by_folder == by_file
    assert by_folder.patch == PATCH
    assert by_folder.base_commit == evidence().stack.commit
    assert by_folder.end_to_end == evidence().iteration.end_to_end


DIFFERING = {
    "iteration__equivalence__0__differing": 3,
    "iteration__equivalence__0__limit": 1e-4,
}
TAMPERED = {
    "another schema": ({"schema": "fvec.evidence/2"}, "schema"),
    "an unknown field": ({"iteration__bonus": 1}, "iteration.bonus"),
    "a larger gain": (
        {"iteration__end_to_end__throughput_ratio": 1.6, "iteration__end_to_end__ci": [1.5, 1.7]},
        "the throughput ratio is printed as 1.6, and its pairs give 1.42212",
    ),
    "a larger CPU gain": (
        {"iteration__end_to_end__cpu_ratio": 2.0, "iteration__end_to_end__cpu_ci": [1.9, 2.1]},
        "the CPU ratio is printed as 2, and its pairs give 1.43417",
    ),
    "an interval elsewhere": (
        {"iteration__end_to_end__ci": [1.5, 1.6]},
        "an end of the interval of the throughput ratio is 1.5, and its pairs give 1.",
    ),
    "an interval as wide as it takes": (
        {"iteration__end_to_end__ci": [1.05, 9.0]},
        "an end of the interval of the throughput ratio is 1.05, and its pairs give 1.",
    ),
    "a CPU interval as wide as it takes": (
        {"iteration__end_to_end__cpu_ci": [1.0, 20.0]},
        "an end of the interval of the CPU ratio is 1, and its pairs give 1.",
    ),
    "a pair that its blocks do not show": (
        {"blocks__16__rate": 50.0},
        "pair 3.1 says 1.42968, its blocks ",
    ),
    "pairs without blocks": ({"blocks": []}, "the blocks of pair 1.1 are not there"),
    "fewer pairs": ({"iteration__end_to_end__pairs": 8}, "of 8 fresh pairs, and 4 are there"),
    "a failed gate": (
        {"iteration__gates__2__result": "fail"},
        "it is accepted, and the gate correctness did not pass",
    ),
    "no gates": ({"iteration__gates": []}, "it is accepted, and the gate paths is not there"),
    "another gate": (
        {"iteration__gates__3__name": "mood"},
        "it is accepted, and the gate memory is not there",
    ),
    "an approximation without its metric": (
        {"iteration__hypothesis__change_class": "approximate"},
        "it is accepted, and the gate metric is not there",
    ),
    "a reordering without its referee": (
        {"iteration__hypothesis__change_class": "reorder", **DIFFERING},
        "it is accepted, and the gate referee is not there",
    ),
    "outputs that differ": (DIFFERING, "output 'score' differs, which a change of class exact may"),
    "outputs that differ unbounded": (
        {
            "iteration__hypothesis__change_class": "config",
            "iteration__equivalence__0__differing": 3,
        },
        "output 'score' differs, which a change of class config may not do",
    ),
    "no outputs": ({"iteration__equivalence": []}, "no outputs were compared"),
    "outputs of no request": (
        {"iteration__equivalence__1__requests": 0},
        "no outputs were compared",
    ),
    "no looks": ({"iteration__looks": []}, "no look accepted its gain"),
    "a look that did not accept": (
        {"iteration__looks__1__decision": "continue"},
        "no look accepted its gain",
    ),
    "a look that may be a loss": (
        {"iteration__looks__1__ci": [0.99, 1.9]},
        "the interval of its last look begins at 0.990",
    ),
    "a look that its pairs do not give": (
        {"iteration__looks__1__estimate": 1.9},
        "the last look is printed as 1.9, and its pairs give 1.4",
    ),
    "a look that asked for less": (
        {"iteration__looks__1__boundary": 0.5},
        "its last look asked for less than looks ask",
    ),
    "a look at launches that are not there": (
        {"iteration__looks__1__k": 4},
        "its last look is at 4 launches, and its pairs are of 2",
    ),
    "pairs as noisy as no gain can be": (
        {"noise__work__pair_sd_pct": 40.0, "noise__work__floor_pct": 60.0},
        "the last look",
    ),
    "a load test with other shares": (
        {"iteration__load_test__over_slo_difference": -0.5},
        "the shares over the SLO are not those of its load test",
    ),
    "a load test that does not pass": (
        {"iteration__load_test__candidate__over_slo": 200},
        "the shares over the SLO are not those of its load test",
    ),
    "a p99 outside its interval": (
        {"iteration__load_test__p99_ci": [2.0, 3.0]},
        "the interval of the p99 ratio does not hold the ratio",
    ),
    "no load test": ({"iteration__load_test": None}, "without a load test that counts"),
    "a void load test": (
        {"iteration__load_test__void": "neighbour_busy"},
        "without a load test that counts",
    ),
    "a load test at another SLO": (
        {"iteration__load_test__slo_p99_ms": 600.0},
        "its load test is at 600 ms, and the SLO is 60 ms",
    ),
    "a load test without load": (
        {"iteration__load_test__candidate__requests": 0},
        "sent the two arms other requests",
    ),
    "a load test with errors": (
        {"iteration__load_test__candidate__errors": 1},
        "has more errors than the baseline's",
    ),
    "another p99": (
        {"iteration__end_to_end__p99_ratio": 9.0},
        "the p99 ratio that is printed is not",
    ),
    "no claim": (
        {"iteration__verdict": "rejected"},
        "it claims no gain: its verdict is rejected (gain_above_noise)",
    ),
    "an option for a commit": (
        {"iteration__base_commit": "--upload-pack=x"},
        "'--upload-pack=x' is not the name of a commit",
    ),
    "a number that is none": ({"iteration__end_to_end__cpu_ratio": "fast"}, "cpu_ratio"),
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_evidence_that_contradicts_itself_is_refused_with_what_is_wrong(tmp_path, kind):
    changes, said = TAMPERED[kind]
    with pytest.raises(InvalidInput) as caught:
        reverify.load(folder_of(tmp_path, **changes))
    assert said in caught.value.message
    assert caught.value.at is not None
    assert caught.value.at.path == tmp_path / "evidence.json"
    assert caught.value.hint


def test_a_slowdown_is_no_gain_however_well_its_numbers_agree(tmp_path):
    document = json.loads((folder_of(tmp_path) / "evidence.json").read_text())
    iteration, lower = document["iteration"], 0.6
    for pair in iteration["confirm"]:
        pair["throughput_ratio"] *= lower
    for block in document["blocks"]:
        if block["launch"] == 3 and block["arm"] == "candidate":
            block["rate"] *= lower
    end = iteration["end_to_end"]
    end["throughput_ratio"] *= lower
    end["ci"] = [end["ci"][0] * lower, end["ci"][1] * lower]
    (tmp_path / "evidence.json").write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match=r"its fresh pairs show no gain: 0\.853 times"):
        reverify.load(tmp_path)


def test_a_reordering_with_its_referee_and_within_limits_is_read(tmp_path):
    gates = [gate.model_dump(mode="json") for gate in evidence().iteration.gates]
    referee = {"name": "referee", "result": "pass", "reason": "within_referee_error"}
    changes = {"iteration__hypothesis__change_class": "reorder", **DIFFERING}
    folder = folder_of(tmp_path, **changes, iteration__gates=[*gates, referee])
    assert reverify.load(folder).evidence.iteration.equivalence[0].differing == 3


@pytest.mark.parametrize(
    ("commit", "result"),
    [("0" * 40, "pass"), (evidence().iteration.commit, "fail")],
)
def test_a_change_that_was_committed_anew_is_held_to_its_class_there(tmp_path, commit, result):
    gate = {"name": "correctness", "result": result, "reason": "outputs_identical"}
    moved = {"n": 1, "commit": commit, "base_commit": "1" * 40, "measured_commit": "2" * 40}
    told = {**moved, "gates": [gate], "outputs_compared": 216}
    with pytest.raises(InvalidInput, match="committed anew, and not held to its class there"):
        reverify.load(folder_of(tmp_path, moved=told))


def test_another_patch_than_the_evidence_s_is_refused(tmp_path):
    (folder_of(tmp_path) / "patch.diff").write_bytes(PATCH + b"more")
    with pytest.raises(InvalidInput, match=r"patch\.diff is not the patch"):
        reverify.load(tmp_path)


def test_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(InvalidInput, match=r"evidence\.json: cannot be read: No such file"):
        reverify.load(tmp_path)
    (folder_of(tmp_path) / "patch.diff").unlink()
    with pytest.raises(InvalidInput, match=r"patch\.diff: cannot be read: No such file"):
        reverify.load(tmp_path)


def test_a_stack_without_the_base_commit_is_refused(tmp_path, tiny_repo):
    base = evidence().stack.commit
    with pytest.raises(InvalidInput) as caught:
        reverify.verify_evidence(
            folder_of(tmp_path), tiny_repo, JudgeOptions(out=tmp_path / "out"), cli
        )
    assert caught.value.message == (
        f"the evidence is about commit {base[:12]}, which {tiny_repo} does not have"
    )
    assert "--stack" in (caught.value.hint or "")


def test_a_repository_that_another_command_works_on_is_left_alone(tmp_path, tiny_repo):
    with (
        lock.repository(tiny_repo, tmp_path / "held"),
        pytest.raises(InvalidInput, match="another run works on this repository"),
    ):
        reverify.verify_evidence(
            folder_of(tmp_path), tiny_repo, JudgeOptions(out=tmp_path / "out"), Silent()
        )
    assert not (tmp_path / "out").exists()


def commit_of(repo: Path, message: str) -> str:
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message", message)
    return git(repo, "rev-parse", "HEAD").strip()


def weakened(repo: Path) -> str:
    """Commit a manifest that names the weakest sandbox; return the commit."""
    manifest = repo / ".github/fvec.yml"
    manifest.write_text(f"{manifest.read_text()}\nsandbox:\n  mode: process\n")
    return commit_of(repo, "Weaken")


def test_a_base_commit_that_the_checkout_does_not_build_on_rules_nothing(tmp_path, tiny_repo):
    head = git(tiny_repo, "rev-parse", "HEAD").strip()
    base = weakened(tiny_repo)
    git(tiny_repo, "reset", "--quiet", "--hard", head)
    folder = tmp_path / "evidence"
    folder.mkdir()
    with pytest.raises(InvalidInput) as caught:
        reverify.verify_evidence(
            folder_of(folder, iteration__base_commit=base),
            tiny_repo,
            JudgeOptions(out=tmp_path / "out"),
            cli,
        )
    assert caught.value.message == (
        f"the evidence is about commit {base[:12]}, which the checked-out {head[:12]} "
        "does not build on"
    )
    assert "check out the branch" in (caught.value.hint or "")
    assert not (tmp_path / "out").exists()


def test_the_sandbox_is_no_weaker_than_that_of_the_checkout(tmp_path, tiny_repo, monkeypatch):
    strong = (tiny_repo / ".github/fvec.yml").read_text()
    base = weakened(tiny_repo)
    (tiny_repo / ".github/fvec.yml").write_text(strong)
    commit_of(tiny_repo, "Strengthen again")
    seen = []

    def opened(section):
        seen.append(section.mode)
        raise Missing("seen enough")

    monkeypatch.setattr(session.Sandbox, "open", opened)
    monkeypatch.setattr(session, "ensure", lambda *_, **__: None)
    folder = tmp_path / "evidence"
    folder.mkdir()
    changes = {"iteration__base_commit": base}
    with pytest.raises(Missing, match="seen enough"):
        reverify.verify_evidence(
            folder_of(folder, **changes), tiny_repo, JudgeOptions(out=tmp_path / "out"), Silent()
        )
    assert seen == [SandboxMode.STRICT]


def compared(tmp_path: Path, judged: JudgeReport) -> VerifyReport:
    return reverify.compare(reverify.load(folder_of(tmp_path)), judged)


def again(ratio: float) -> JudgeReport:
    """A new judgement that accepted, with another gain."""
    end = accepted().end_to_end
    assert end is not None
    moved = {"throughput_ratio": ratio, "ci": (ratio * 0.98, ratio * 1.02)}
    return accepted().model_copy(update={"end_to_end": end.model_copy(update=moved)})


@pytest.mark.parametrize(
    ("ratio", "verdict", "reason"),
    [
        (1.42, Verdict.ACCEPTED, "reproduced"),
        (1.40, Verdict.ACCEPTED, "reproduced"),
        (1.90, Verdict.ACCEPTED, "reproduced"),
        (1.20, Verdict.REJECTED, "gain_differs"),
    ],
)
def test_only_a_surely_lower_gain_demotes(tmp_path, ratio, verdict, reason):
    report = compared(tmp_path, again(ratio))
    assert (report.verdict, report.reason) == (verdict, reason)
    assert report.difference == pytest.approx(ratio / 1.4221159534943555)
    assert report.recorded == evidence().iteration.end_to_end


def test_claims_that_are_held_at_once_are_held_to_the_level_of_one(tmp_path):
    """Of three, one lies below its own 95 % interval by chance in more than one rerun of twenty."""
    report = compared(tmp_path, again(1.375))
    assert report.difference_ci is not None
    assert report.difference_ci[1] < 1
    assert (report.verdict, report.reason) == (Verdict.ACCEPTED, "reproduced")
    assert report.detail.startswith("lower by the throughput's own interval; not surely")


def test_a_p99_that_a_hiccup_made_unsure_is_not_held_to_its_middle():
    """As recorded here: one start of seven saw 8.8 times, the others 3.5 to 4.9."""
    claim, now = Estimate(8.76, (2.55, 11.56), 1000), Estimate(3.86, (2.74, 4.68), 1000)
    assert reverify.held_to(claim, now).ci[1] < 1
    assert reverify.held_to(claim, now, reverify.P99_WIDER).ci[1] > 1
    wide = Estimate(3.0, (1.05, 9.0), 1000)
    none = Estimate(1.01, (0.98, 1.04), 1000)
    assert reverify.held_to(wide, none, reverify.P99_WIDER).ci[1] < 1


def test_a_claim_is_not_helped_by_how_unsure_it_says_it_is():
    claim, now = Estimate(3.0, (1.05, 9.0), 4), Estimate(1.1, (1.07, 1.13), 4)
    assert reverify.held_to(claim, now).ci[1] < 1
    honest = Estimate(1.12, (1.09, 1.15), 4)
    assert reverify.held_to(honest, now).ci[1] > 1
    narrow = Estimate(1.12, (1.119, 1.121), 4)
    assert reverify.held_to(narrow, now).ci[1] > 1
    assert reverify.held_to(narrow, now).ci[1] < reverify.held_to(honest, now).ci[1]


@pytest.mark.parametrize(
    ("section", "changes", "what"),
    [
        ("end_to_end", {"cpu_ratio": 1.1, "cpu_ci": (1.09, 1.11)}, "CPU"),
        ("load_test", {"p99_ratio": 1.01, "p99_ci": (0.98, 1.04)}, "p99"),
    ],
)
def test_every_printed_gain_is_held_to_what_is_measured_now(tmp_path, section, changes, what):
    before = getattr(accepted(), section)
    judged = accepted().model_copy(update={section: before.model_copy(update=changes)})
    report = compared(tmp_path, judged)
    assert (report.verdict, report.reason) == (Verdict.REJECTED, "gain_differs")
    assert report.detail == f"a gain is there; lower than recorded: {what}"


def test_a_higher_gain_is_noted_and_does_not_promote(tmp_path):
    assert compared(tmp_path, again(1.9)).detail == (
        "the gain is higher than recorded; the recorded one stays the claim"
    )


def test_a_gate_that_fails_now_rejects_with_its_reason(tmp_path):
    report = compared(tmp_path, rejected())
    assert (report.verdict, report.reason) == (Verdict.REJECTED, "gate_fails_now")
    assert report.detail == f"outputs_differ: {rejected().detail}"
    assert (report.again, report.difference) == (None, None)


@pytest.mark.parametrize(
    ("estimate", "half", "verdict", "reason"),
    [
        (1.00, 0.01, Verdict.REJECTED, "gain_differs"),
        (1.30, 0.30, Verdict.INCONCLUSIVE, "gain_not_confirmed"),
    ],
)
def test_a_gain_that_is_not_shown_again_rejects_only_where_it_is_surely_lower(
    tmp_path, estimate, half, verdict, reason
):
    look = accepted().looks[-1].model_copy(
        update={"estimate": estimate, "ci": (estimate - half, estimate + half)}
    )  # fmt: skip
    gate = Gate(name="gain", result=GateResult.FAIL, reason="below_noise_floor", detail="noise")
    judged = accepted().model_copy(
        update={
            "verdict": Verdict.REJECTED,
            "reason": "below_noise_floor",
            "detail": "noise",
            "end_to_end": None,
            "looks": [look],
            "gates": [gate],
        }
    )
    report = compared(tmp_path, judged)
    assert (report.verdict, report.reason) == (verdict, reason)
    assert report.detail == "below_noise_floor: noise"


@pytest.mark.parametrize("verdict", [Verdict.INCONCLUSIVE, Verdict.FAILED])
def test_what_the_new_judgement_could_not_decide_is_not_decided(tmp_path, verdict):
    judged = rejected().model_copy(update={"verdict": verdict, "reason": "machine_too_noisy"})
    report = compared(tmp_path, judged)
    assert (report.verdict, report.reason) == (verdict, "machine_too_noisy")


def test_another_machine_is_told():
    packages = {**ENVIRONMENT.packages, "numpy": "2.0.0", "torch": "2.9.1+cpu"}
    other = ENVIRONMENT.model_copy(update={"cpu": "Another CPU", "cores": 64, "packages": packages})
    assert reverify.machine_warnings(ENVIRONMENT, ENVIRONMENT) == []
    assert reverify.machine_warnings(ENVIRONMENT, other) == [
        f"cpu differs: recorded {ENVIRONMENT.cpu}, here Another CPU",
        f"cores differs: recorded {ENVIRONMENT.cores}, here 64",
        "packages differ, recorded to here: numpy 1.26.4 to 2.0.0",
    ]


def verified(ratio: float = 1.40) -> VerifyReport:
    recorded = reverify.Recorded(
        evidence(), PATCH, evidence().stack.commit, evidence().iteration.end_to_end
    )
    return reverify.compare(recorded, again(ratio))


def test_a_verification_reads_as_expected():
    assert_golden("verify.md", judgement.verified_body(verified()))
    assert_golden("verify.txt", shown(judge_terminal.verify(verified(), {})))


@pytest.mark.parametrize(("ratio", "code"), [(1.40, 0), (1.20, 1)])
def test_the_command_answers_by_its_exit_code(tmp_path, monkeypatch, capsys, ratio, code):
    module = ModuleType("layers.reverify")
    seen = []

    def verify_evidence(path, stack, options, events):
        seen.append((path, stack, options.seed))
        return verified(ratio)

    module.verify_evidence = verify_evidence
    monkeypatch.setitem(sys.modules, "layers.reverify", module)
    argv = ["verify", "forge/pulls/1", "--stack", "s", "--seed", "9", "--out", str(tmp_path)]
    assert cli.main([*argv, "--json"]) == code
    assert json.loads(capsys.readouterr().out)["schema"] == "fvec.verify/1"
    assert seen == [(Path("forge/pulls/1"), Path("s"), 9)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["verify.json", "verify.md"]

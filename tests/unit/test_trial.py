"""A trial's record, and the gates of `layers.trial.verify` that need no server."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from layers.base import Candidate, ChangeClass, Edit, Hypothesis, LayerName, StackView
from layers.errors import Inconclusive, InvalidInput, Missing, ToolFailed
from layers.events import Silent
from layers.evidence import Block, Gate, GateResult, NoiseFloor, Pair, Verdict
from layers.gates.correctness import Limits
from layers.gates.paths import judging_modules, not_exercised, paths_gate, protected_files
from layers.manifest import Manifest
from layers.measure.launch import ARMS, MAX_VOID, DoesNotServe, Launch, MeasuredPair, Recorded
from layers.measure.stats import LookPlan
from layers.registry import LAYERS
from layers.sandbox.base import Ending
from layers.sandbox.box import LimitReached
from layers.trial.load_gate import load_test
from layers.trial.trial import Trial, TrialEnded, process_gain
from layers.trial.verify import Rules, Verifier

MODEL = "models/m/1/model.py"
MANIFEST = Manifest.model_validate(
    {
        "schema": "fvec.manifest/1",
        "stack": {
            "name": "s",
            "models": "models",
            "entry": "m",
            "build": [
                {
                    "run": ["python", "traffic/record.py"],
                    "inputs": ["traffic/record.py", "traffic/words/*.txt", "net"],
                    "outputs": ["traffic/requests.bin"],
                }
            ],
        },
        "traffic": {"requests": "traffic/requests.bin", "arrivals": "traffic/arrivals.csv"},
        "slo": {"p99_ms": 10},
        "correctness": {"referee": "judge/referee.py:answer", "metric": "judge/metric.py:click"},
    }
)


def candidate(
    *files: str, patch: str = "diff", change_class: ChangeClass = ChangeClass.EXACT
) -> Candidate:
    hypothesis = Hypothesis(
        layer=LayerName.FEATURES,
        card="card",
        transform="card",
        model="m",
        title="Title",
        why="because",
        share=0.5,
        expected_gain=0.5,
        best_gain=0.8,
        change_class=change_class,
        sites=(f"{MODEL}:3",),
    )
    edit = Edit(dict.fromkeys(files or (MODEL,), b""), "Do it", "It is right.")
    return Candidate(hypothesis, edit, "fvec/b", "base", "head", Path("/w"), patch)


def paths(*files: str, **changes) -> tuple[GateResult, str, str]:
    gate = paths_gate(candidate(*files, **changes), protected_files(MANIFEST))
    return gate.result, gate.reason, gate.detail


def test_an_edit_of_the_models_passes():
    assert paths(MODEL) == (GateResult.PASS, "paths_allowed", MODEL)


def test_an_edit_without_a_patch_is_a_no_op():
    assert paths(MODEL, patch="") == (GateResult.FAIL, "no_op_edit", "")


@pytest.mark.parametrize(
    "file",
    [
        ".github/workflows/ci.yml",
        ".github/fvec.yml",
        ".git/config",
        "judge/referee.py",
        "judge/metric.py",
        "traffic/requests.bin",
        "traffic/arrivals.csv",
        "traffic/record.py",
        "traffic/words/de.txt",
        "net/model.py",  # an input of the step that writes the traffic
    ],
)
def test_what_judges_a_candidate_is_protected_from_it(file):
    assert paths(MODEL, file) == (GateResult.FAIL, "touches_protected_files", file)


@pytest.mark.parametrize("file", ["traffic_shaping.py", "network/model.py", "judge/other.py"])
def test_files_that_only_look_like_it_are_not_protected(file):
    assert paths(file)[1] == "paths_allowed"


def test_traffic_at_the_root_does_not_protect_what_every_build_step_reads():
    data = MANIFEST.model_dump(by_alias=True)
    data["traffic"] = {"requests": "requests.bin", "arrivals": "arrivals.csv"}
    data["correctness"] = {}
    manifest = Manifest.model_validate(data)
    assert protected_files(manifest) == (".github/fvec.yml", "requests.bin", "arrivals.csv")


def test_the_requirements_are_the_baselines_for_both_arms():
    tried = candidate(MODEL, "requirements.txt")
    gate = paths_gate(tried, protected_files(MANIFEST), "requirements.txt")
    assert (gate.result, gate.reason, gate.detail) == (
        GateResult.FAIL,
        "changes_requirements",
        "requirements.txt: candidates run in the baseline's environment, so no gate sees it",
    )
    both = candidate("requirements.txt", ".github/x.yml")
    reason = paths_gate(both, protected_files(MANIFEST), "requirements.txt").reason
    assert reason == "touches_protected_files"


def judged_by(referee: str, models: str = "models") -> Manifest:
    data = MANIFEST.model_dump(by_alias=True)
    data["correctness"] = {"referee": f"{referee}:answer"}
    data["stack"]["models"] = models
    return Manifest.model_validate(data)


def test_a_folder_of_the_referee_s_own_is_protected_whole():
    modules = judging_modules(judged_by("judge/referee.py"), Path("/nowhere"))
    assert modules == ("judge/**/*.py", "judge/*.py")
    for name in ("judge/helpers.py", "judge/deep/er.py"):
        assert paths_gate(candidate(name), modules).reason == "touches_protected_files"
    assert paths_gate(candidate("judge/notes.md", MODEL), modules).reason == "paths_allowed"


SOURCE = """\
import os, helpers as h, json.decoder
from pack.part import thing
from . import beside
from models.m import code
raise SystemExit("nothing is executed")
"""


@pytest.mark.parametrize("folder", ["", "net/"])
def test_modules_beside_the_referee_that_it_imports_are_protected(tmp_path, folder):
    base = tmp_path / folder
    (base / "pack").mkdir(parents=True)
    (base / "models/m").mkdir(parents=True)
    (base / "referee.py").write_text(SOURCE)
    (base / "helpers.py").write_text("def f():\n    import deeper, referee\n")
    (base / "models/m/code.py").write_text("")
    for name in ("deeper", "beside", "other", "pack/__init__", "pack/part", "pack/more"):
        (base / f"{name}.py").write_text("")
    (base / "deeper.py").write_text("not Python (")
    found = judging_modules(judged_by(f"{folder}referee.py", f"{folder}models"), tmp_path)
    expected = ["beside.py", "deeper.py", "helpers.py", "pack/__init__.py", "pack/part.py"]
    assert found == tuple(folder + name for name in expected)


def test_what_no_station_may_have_run_is_told_up_to_eight_names():
    run = [MODEL, "traffic/words/de.txt", "net/a.py", "fvec_native/x.cpp"]
    assert not_exercised(run, MANIFEST) is None
    start = "not exercised, outside stack.models and what stack.build reads: "
    assert not_exercised([*run, "README.md", "a.py"], MANIFEST) == f"{start}README.md, a.py"
    many = [f"f{i}.py" for i in range(10)]
    assert not_exercised(many, MANIFEST) == f"{start}{', '.join(many[:8])} and 2 more"


def test_a_config_change_that_edits_code_fails():
    config = "models/m/config.pbtxt"
    assert paths(config, change_class=ChangeClass.CONFIG)[0] is GateResult.PASS
    assert paths(config, MODEL, change_class=ChangeClass.CONFIG) == (
        GateResult.FAIL,
        "config_change_is_a_code_patch",
        MODEL,
    )


def gate(result: GateResult) -> Gate:
    return Gate(name="g", result=result, reason="r", detail="d")


def test_a_gate_ends_the_trial_unless_it_passed():
    trial = Trial(1, candidate())
    trial.pass_or_end(gate(GateResult.PASS))
    with pytest.raises(TrialEnded) as failed:
        trial.pass_or_end(gate(GateResult.FAIL))
    with pytest.raises(TrialEnded) as undecided:
        trial.pass_or_end(gate(GateResult.INCONCLUSIVE))
    ends = [(e.value.verdict, e.value.reason, e.value.detail) for e in (failed, undecided)]
    assert ends == [(Verdict.REJECTED, "r", "d"), (Verdict.INCONCLUSIVE, "r", "d")]
    assert [kept.result for kept in trial.gates] == list(GateResult)


def test_the_record_of_a_trial_says_what_was_tried_and_how_it_ended():
    trial = Trial(3, candidate("b.py", "a.py"))
    trial.pass_or_end(gate(GateResult.PASS))
    record = trial.iteration(TrialEnded(Verdict.REJECTED, "outputs_differ", "one"), 1.5)
    assert record.model_dump(exclude_defaults=True, mode="json") == {
        "n": 3,
        "layer": "features",
        "card": "card",
        "hypothesis": {
            "title": "Do it",
            "why": "because",
            "model": "m",
            "share": 0.5,
            "expected_gain": 0.5,
            "score": 0.25,
            "change_class": "exact",
            "sites": [f"{MODEL}:3"],
        },
        "verdict": "rejected",
        "reason": "outputs_differ",
        "detail": "one",
        "gates": [{"name": "g", "result": "pass", "reason": "r", "detail": "d"}],
        "branch": "fvec/b",
        "commit": "head",
        "base_commit": "base",
        "explanation": "It is right.",
        "patch_sha256": hashlib.sha256(b"diff").hexdigest(),
        "files_changed": ["a.py", "b.py"],
        "wall_s": 1.5,
    }


def test_a_patch_of_bytes_that_are_not_utf8_is_recorded():
    patch = b"+name = '\xe9'\n".decode("utf-8", "surrogateescape")
    record = Trial(1, candidate(patch=patch)).iteration(
        TrialEnded(Verdict.REJECTED, "outputs_differ"), 0.0
    )
    assert record.patch_sha256 == hashlib.sha256(b"+name = '\xe9'\n").hexdigest()


def block(arm: str, **changes) -> Block:
    values = {
        "arm": arm,
        "measure": "tail",
        "launch": 1,
        "pair": 1,
        "position": 1,
        "requests": 500,
        "completed": 500,
        "errors": 0,
        "wall_s": 5.0,
        "rate": 100.0,
        "offered": 100.0,
        "generator_cpu": 0.1,
        "lag_p99_ms": 0.5,
        "neighbour_cpu": 0.0,
        "over_slo": 1,
    }
    return Block.model_validate(values | changes)


class Latencies:
    """A block's latencies, as a `LoadResult` has them."""

    request_set = "the same for both arms"

    def __init__(self, values_ms: np.ndarray) -> None:
        self.values_ms = values_ms
        self.records = {"scheduled_s": np.linspace(0.0, 5.0, 500)}

    def latencies_ms(self) -> np.ndarray:
        return self.values_ms


def recorded(segments: int = 2, **candidate_changes) -> Recorded:
    rng = np.random.default_rng(1)
    made = Recorded()
    for arm, scale in (("baseline", 2.0), ("candidate", 1.0)):
        changes = candidate_changes if arm == "candidate" else {}
        for _ in range(segments):
            made.blocks[arm].append(block(arm, **changes))
            made.results[arm].append(Latencies(scale * rng.exponential(1.0, 500)))
    return made


def judged(made: Recorded):
    test, gate = load_test(made, 10.0, 100.0, 1000)
    return test, (gate.name, gate.result, gate.reason)


def test_a_load_test_without_a_regression_passes_the_commit_gate():
    test, gate = judged(recorded())
    assert gate == ("commit", GateResult.PASS, "slo_not_worse")
    arm = test.candidate
    assert (arm.requests, arm.offered, arm.achieved, arm.errors, arm.over_slo) == (
        1000,
        100.0,
        100.0,
        0,
        2,
    )
    assert sorted(arm.latency_ms) == ["p50", "p90", "p95", "p99"]
    assert (test.over_slo_difference, test.outputs_compared, test.void) == (0.0, 1000, None)
    assert test.p99_ratio == pytest.approx(2.0, rel=0.5)


@pytest.mark.parametrize(
    ("changes", "result", "reason"),
    [
        ({"over_slo": 60}, GateResult.FAIL, "slo_worse"),
        ({"over_slo": 7}, GateResult.INCONCLUSIVE, "slo_undecided"),
        ({"errors": 1, "completed": 499}, GateResult.FAIL, "more_errors"),
    ],
)
def test_a_regression_at_the_slo_is_not_committed(changes, result, reason):
    _, gate = judged(recorded(**changes))
    assert gate == ("commit", result, reason)


@pytest.mark.parametrize("changes", [{"offered": 90.0}, {"requests": 499}])
def test_arms_at_different_offered_load_are_not_compared(changes):
    with pytest.raises(ToolFailed, match="the arms were offered different load"):
        judged(recorded(**changes))


def test_arms_with_different_requests_are_not_compared():
    made = recorded()
    made.results["candidate"][1].request_set = "an easier one"
    with pytest.raises(ToolFailed, match="the arms were offered different load"):
        judged(made)


def test_too_few_requests_do_not_pass_the_commit_gate():
    test, gate = judged(recorded(segments=1))
    assert gate == ("commit", GateResult.INCONCLUSIVE, "too_few_requests")
    assert "p99" not in test.candidate.latency_ms
    assert test.p99_ratio is None


def test_the_local_gain_is_the_cpu_ratio_of_the_changed_models_process():
    trial = Trial(1, candidate())
    trial.block_cpu = [
        {
            "baseline": block("baseline", cpu_s={"m": 2.0, "other": 9.0}),
            "candidate": block("candidate", cpu_s={"m": 1.0, "other": 9.0}),
        }
    ] * 3
    gain = process_gain(trial)
    assert gain is not None
    assert gain.model_dump() == {
        "what": "CPU per request of the m process, 3 pairs of blocks",
        "speedup": pytest.approx(2.0),
        "ci": (pytest.approx(2.0), pytest.approx(2.0)),
        "n": 3,
    }


def test_a_model_without_a_process_of_its_own_has_no_local_gain():
    trial = Trial(1, candidate())
    trial.block_cpu = [
        {"baseline": block("baseline"), "candidate": block("candidate", cpu_s={"m": 1.0})}
    ] * 3
    assert process_gain(trial) is None


class Spooled:
    """Counts how often a block's responses were deleted."""

    def __init__(self) -> None:
        self.discarded = 0

    def discard(self) -> None:
        self.discarded += 1


def launch() -> Launch:
    """A launch that has started nothing."""
    return Launch(SimpleNamespace(events=Silent()), 1, None, None, "candidate-1")


def judge_void(started: Launch, baseline: str | None, candidate: str | None):
    blocks = {
        "baseline": block("baseline", void=baseline),
        "candidate": block("candidate", void=candidate),
    }
    results = {arm: Spooled() for arm in blocks}
    return started._any_void(blocks, results), [r.discarded for r in results.values()]


def test_a_good_pair_is_kept_for_verification():
    assert judge_void(launch(), None, None) == (False, [0, 0])


def test_a_pair_that_the_machine_spoiled_is_measured_again_up_to_a_limit():
    started = launch()
    for _ in range(MAX_VOID):
        assert judge_void(started, None, "noisy_neighbour") == (True, [1, 1])
    with pytest.raises(Inconclusive, match="7 pairs of one launch were void"):
        judge_void(started, "late_sends", None)


def test_what_lies_with_the_candidate_is_a_verdict_on_it():
    with pytest.raises(DoesNotServe) as caught:
        judge_void(launch(), "noisy_neighbour", "short_outputs")
    assert caught.value.reason == "short_outputs_under_load"


def test_what_lies_with_the_baseline_is_none():
    with pytest.raises(ToolFailed, match="the baseline broke under load: 0 of 500"):
        judge_void(launch(), "errors", "errors")


def verdict_of(
    tried: Candidate,
    build_error: Exception | None = None,
    *,
    root: Path = Path("/b"),
    manifest: Manifest = MANIFEST,
    meanwhile: Callable[[], object] = lambda: None,
    layer: object = LAYERS[LayerName.FEATURES],
) -> tuple[str, str, str]:
    """Judge a candidate whose trial ends before a server starts."""

    def build(_view: StackView) -> None:
        meanwhile()
        if build_error:
            raise build_error

    noise = NoiseFloor(floor_pct=2.0, pair_sd_pct=1.0, pairs=8, launches=2)
    rules = Rules(noise, LookPlan(candidates=10), Limits(), frozenset(), protected_files(MANIFEST))
    traffic = SimpleNamespace(requests=SimpleNamespace(path=root / "traffic/requests.bin"))
    bench = SimpleNamespace(
        events=Silent(), manifest=manifest, load=SimpleNamespace(traffic=traffic), fresh=None
    )
    verifier = Verifier(bench, rules, build, None, lambda look: None)
    baseline = StackView(root, "base", manifest, Path("python"))
    found = verifier.verify(tried, layer, baseline, 1)
    return found.verdict, found.reason, found.detail


def test_a_no_op_is_rejected_before_anything_is_built():
    assert verdict_of(candidate(patch=""), ToolFailed("not reached"))[:2] == (
        "rejected",
        "no_op_edit",
    )


def test_an_approximation_needs_metric_and_margin_of_the_manifest():
    data = MANIFEST.model_dump(by_alias=True, mode="json")
    data["correctness"]["approximate_margin"] = 0.01
    opted_in = Manifest.model_validate(data)
    tried = candidate(change_class=ChangeClass.APPROXIMATE)
    end = verdict_of(tried, ToolFailed("reached"), manifest=opted_in)
    assert end == ("rejected", "build_failed", "reached")


@pytest.mark.parametrize(("layer", "asked"), [(None, []), ("a layer", ["measured"])])
def test_a_change_that_was_moved_is_held_to_its_class_and_not_measured(monkeypatch, layer, asked):
    seen: list[str] = []

    def correct(_verifier, trial, _launch, _baseline):
        seen.append("answers compared")

    def measure(_verifier, _trial, _launch):
        seen.append("measured")
        raise TrialEnded(Verdict.REJECTED, "measured")

    monkeypatch.setattr(Verifier, "_launch", lambda *_: nullcontext())
    monkeypatch.setattr(Verifier, "_correctness", correct)
    monkeypatch.setattr(Verifier, "_measure", measure)
    end = verdict_of(candidate(), layer=layer)
    assert seen == ["answers compared", *asked]
    assert end[0] == ("rejected" if asked else "accepted")


@pytest.mark.parametrize("name", ["traffic/requests.bin", ".github/fvec.yml", "judge/metric.py"])
def test_a_trial_that_changes_what_judges_it_has_failed(tmp_path, name):
    file = tmp_path / name
    file.parent.mkdir(parents=True)
    file.write_text("as it was")
    end = verdict_of(
        candidate(), ToolFailed("no"), root=tmp_path, meanwhile=lambda: file.write_text("easier")
    )
    named = [name] if name != "traffic/requests.bin" else ["in use: requests.bin", name]
    assert end == ("failed", "evaluator_changed", ", ".join(named))


def test_a_trial_that_deletes_what_judges_it_has_failed(tmp_path):
    (tmp_path / "judge").mkdir()
    referee = tmp_path / "judge/referee.py"
    referee.write_text("as it was")
    end = verdict_of(candidate(), ToolFailed("no"), root=tmp_path, meanwhile=referee.unlink)
    assert end[1:] == ("evaluator_changed", "judge/referee.py")


def test_an_approximation_is_not_allowed():
    tried = candidate(change_class=ChangeClass.APPROXIMATE)
    assert verdict_of(tried)[:2] == ("rejected", "approximate_not_allowed")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ToolFailed("exit code 1"), ("rejected", "build_failed", "exit code 1")),
        (DoesNotServe("no weights"), ("rejected", "does_not_serve", "no weights")),
        (Inconclusive("7 void"), ("inconclusive", "machine_too_noisy", "7 void")),
        (Missing("no compiler"), ("failed", "tool_failed", "no compiler")),
        (InvalidInput("no inputs"), ("rejected", "build_failed", "no inputs")),
        (LimitReached("too big", Ending.MEMORY_LIMIT), ("rejected", "memory_limit", "too big")),
    ],
)
def test_every_error_becomes_the_verdict_that_it_deserves(error, expected):
    assert verdict_of(candidate(), error) == expected


class Measured:
    """A launch whose pairs have given throughput ratios."""

    def __init__(self, *ratios: float) -> None:
        self.left = list(ratios)

    def pairs(self, count: int) -> Iterator[MeasuredPair]:
        for _ in range(count):
            number = 9 - len(self.left)
            pair = Pair(launch=2, pair=number, throughput_ratio=self.left.pop(0), cpu_ratio=1.0)
            yield MeasuredPair(pair, {"baseline": block("baseline")}, dict.fromkeys(ARMS))


def measured(*ratios: float) -> tuple[list[float], list[str], int]:
    noise = NoiseFloor(floor_pct=2.0, pair_sd_pct=1.0, pairs=8, launches=2)
    rules = Rules(noise, LookPlan(candidates=10), Limits(), frozenset(), ())
    verifier = Verifier(SimpleNamespace(events=Silent()), rules, None, None, None)
    verifier._verify_timed = lambda trial, old, new, scored: None
    trial, source = Trial(1, candidate()), Measured(*ratios)
    verifier._measure(trial, source)
    assert trial.launches == [trial.pairs]
    assert len(trial.block_cpu) == 4
    return [pair.throughput_ratio for pair in trial.pairs], trial.warnings, len(source.left)


def test_a_pair_that_stands_alone_is_void_and_measured_again():
    assert measured(1.0, 1.01, 3.0, 0.99, 1.005) == (
        [1.0, 1.01, 0.99, 1.005],
        ["pair 6 of launch 2 stood alone at 3.000 times: it is void and was measured again"],
        0,
    )


def test_pairs_that_agree_are_all_kept():
    assert measured(1.0, 1.01, 1.02, 0.99, 7.0) == ([1.0, 1.01, 1.02, 0.99], [], 1)


class Starting:
    """A deployment that starts, or cannot."""

    def __init__(self, failure: Exception | None) -> None:
        self.failure, self.grpc = failure, ""

    def __enter__(self) -> Starting:
        if self.failure:
            raise self.failure
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def begin_stop(self) -> None:
        return None


@pytest.mark.parametrize(
    ("control", "error", "reason"),
    [
        (None, DoesNotServe, "does_not_serve"),
        (ToolFailed("no sandbox"), ToolFailed, "no arm can be started any more: no sandbox"),
    ],
)
@pytest.mark.parametrize("start_seed", range(4))  # either arm is started first
def test_what_cannot_start_is_the_candidates_fault_only_where_the_baseline_still_can(
    control, error, reason, start_seed
):
    ends = {"candidate": ToolFailed("no"), "control": control, "baseline": None}
    bench = SimpleNamespace(
        events=Silent(),
        start_seed=start_seed,
        deploy=lambda view, name: Starting(ends[name.rpartition("-")[2]]),
        warm=lambda deployment: None,
    )
    with pytest.raises(error) as caught, Launch(bench, 1, None, None, "t"):
        pass
    assert getattr(caught.value, "reason", caught.value.message) == reason


def started_first(start_seed: int, number: int) -> str:
    begun = []
    bench = SimpleNamespace(
        start_seed=start_seed,
        deploy=lambda view, name: begun.append(name.rpartition("-")[2]) or Starting(None),
        warm=lambda deployment: None,
    )
    with Launch(bench, number, None, None, "t"):
        return begun[0]


def test_an_even_launch_starts_the_arms_the_other_way_round():
    firsts = [[started_first(seed, number) for number in range(1, 9)] for seed in range(20)]
    for order in firsts:
        for odd, even in zip(order[0::2], order[1::2], strict=True):
            assert {odd, even} == {"baseline", "candidate"}
    assert len({tuple(order) for order in firsts}) > 1  # drawn, not fixed


def test_a_candidate_that_fails_its_first_requests_does_not_serve():
    bench = SimpleNamespace(
        start_seed=0, deploy=lambda view, name: Starting(None), warm=lambda deployment: "3 failed"
    )
    with pytest.raises((DoesNotServe, ToolFailed)) as caught, Launch(bench, 1, None, None, "t"):
        pass
    assert "3 failed" in caught.value.message

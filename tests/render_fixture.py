"""A run with plausible numbers, for everything that renders.

Figures are invented but hang together: pairs scatter around their ratio, looks follow from the
pairs, the load test has the percentiles that its number of requests allows.
"""

from __future__ import annotations

import math
import random
from typing import Any, Literal

from layers.base import ChangeClass, LayerName
from layers.evidence import (
    ArmLoad,
    Block,
    EndToEnd,
    Environment,
    EvidenceFile,
    FloorRecord,
    Gate,
    GateResult,
    HotspotRecord,
    HypothesisRecord,
    Iteration,
    KnowledgeRecord,
    LoadTest,
    LocalGain,
    Look,
    MeasureReport,
    Noise,
    NoiseFloor,
    OnTop,
    OutputRow,
    Pair,
    PlanReport,
    ProfileRecord,
    PullRequestRecord,
    RankedHypothesis,
    RunReport,
    StackRecord,
    SustainedArm,
    Total,
    Verdict,
)
from layers.measure import stats
from layers.trial.grounds import GATES

BASE = "4be1c60b0c8f0d7a1d1f4b6f0f5e6a77c2a9d310"
SLO_MS = 60.0
STACK = StackRecord(
    name="ads-serving",
    commit=BASE,
    entry="ads_ensemble",
    slo_p99_ms=SLO_MS,
    recorded_rate=38.2,
    requests=1200,
    candidates_mean=497.0,
    owner="@ads-serving/oncall",
)
ENVIRONMENT = Environment(
    cpu="Intel Xeon Platinum 8481C @ 2.70GHz",
    cores=2,
    memory_gib=24.0,
    kernel="Linux 6.1.0-21-amd64",
    python="3.11.7",
    server="Triton 2.51.0",
    packages={"numpy": "1.26.4", "torch": "2.9.1+cpu", "tritonclient": "2.51.0"},
    server_cpus=[0],
    generator_cpus=[1],
)
NOISE = Noise(
    work=NoiseFloor(
        floor_pct=2.31,
        pair_sd_pct=1.44,
        launch_sd_pct=0.82,
        pairs=8,
        launches=2,
        median_pct=0.19,
        launch_differences_pct=[1.2, -1.0],
    ),
    sustained=NoiseFloor(floor_pct=7.9, pair_sd_pct=4.8, pairs=4, launches=1, median_pct=-0.7),
    tail=NoiseFloor(floor_pct=11.6, pair_sd_pct=8.3, pairs=4, launches=1, median_pct=1.9),
)
FLOOR = FloorRecord(
    t_opt_s=0.000203,
    t_sum_s=0.00026,
    resources={"arithmetic": 0.000203, "link": 0.000057},
    binding="arithmetic",
    measured_s=0.0271,
    ratio=133.5,
    declared=True,
    action="profile",
    reason="a request takes 27.1 ms, 133 times its floor of 203 us: no resource accounts for 26.8 ms "
    "of it",
)
PROFILE = ProfileRecord(
    tool="py-spy 0.4.3",
    raw="profile/features.collapsed.txt",
    cpu_s=23.7,
    requests=611,
    by_process={"features": 0.81, "ranker": 0.13, "tritonserver": 0.06},
    by_layer={"features": 0.58, "server": 0.27, "graph": 0.12, "config": 1.0},
    by_phase={
        "features": {"receive": 0.523, "compute": 0.148, "assemble": 0.094, "outside": 0.045},
        "ranker": {"receive": 0.012, "compute": 0.088, "assemble": 0.021, "outside": 0.009},
    },
    hotspots=[
        HotspotRecord(
            process="features",
            place="get_input_tensor_by_name in triton_python_backend_utils.py",
            share=0.312,
        ),
        HotspotRecord(
            process="features",
            place="deserialize_bytes_tensor in triton_python_backend_utils.py",
            share=0.211,
        ),
        HotspotRecord(
            process="features", place="_vocabulary in models/features/1/model.py", share=0.117
        ),
        HotspotRecord(
            process="features", place="_assemble in models/features/1/model.py", share=0.094
        ),
        HotspotRecord(process="ranker", place="execute in models/ranker/1/model.py", share=0.088),
        HotspotRecord(
            process="features", place="_history in models/features/1/model.py", share=0.031
        ),
    ],
    floor=FLOOR,
)
PROCESSES = {"features": 0.031, "ranker": 0.0052, "tritonserver": 0.0024}  # CPU s per request


def pairs(ratio: float, sd: float, launches: int, seed: int, first: int = 1) -> list[Pair]:
    """Four pairs for each launch, scattered around `ratio`."""
    rng = random.Random(seed)
    rows = []
    for launch in range(first, first + launches):
        shift = rng.gauss(0, sd / 2)
        for pair in range(1, 5):
            value = ratio * math.exp(shift + rng.gauss(0, sd))
            rows.append(
                Pair(
                    launch=launch,
                    pair=pair,
                    throughput_ratio=value,
                    cpu_ratio=value * math.exp(rng.gauss(0.006, sd / 3)),
                )
            )
    return rows


def blocks(rows: list[Pair], saved: float) -> list[Block]:
    """The blocks behind pairs; `saved` is the part of the features process that went away."""
    rng = random.Random(len(rows))
    made = []
    for row in rows:
        order: list[Literal["baseline", "candidate"]] = ["baseline", "candidate"]
        rng.shuffle(order)
        for position, arm in enumerate(order, start=1):
            rate = 25.6 * (row.throughput_ratio if arm == "candidate" else 1.0)
            cpu = {name: value * 120 for name, value in PROCESSES.items()}
            if arm == "candidate":
                cpu["features"] *= 1 - saved
            made.append(
                Block.model_validate(
                    {
                        "arm": arm,
                        "measure": "work",
                        "launch": row.launch,
                        "pair": row.pair,
                        "position": position,
                        "requests": 120,
                        "completed": 120,
                        "errors": 0,
                        "wall_s": 120 / rate,
                        "rate": rate,
                        "in_flight": 4,
                        "cpu_s": cpu,
                        "generator_cpu": 0.07,
                        "neighbour_cpu": 0.02,
                    }
                )
            )
    return made


def looks(rows: list[Pair], final: Literal["accept", "reject", "inconclusive"]) -> list[Look]:
    """Looks at one and two launches; one that accepts is what the pairs give."""
    made: list[Look] = []
    for k, boundary in ((1, 5.9), (2, 4.17)):
        values = [math.log(row.throughput_ratio) for row in rows if row.launch <= k]
        mean = sum(values) / len(values)
        spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
        if k == 2 and final == "accept":
            found = stats.look(stats.by_launch(rows), NOISE.work, stats.LookPlan(candidates=10))
            assert found.decision == final
            return [*made, found]
        half = 2.4 * spread / math.sqrt(len(values))
        z = mean / (spread / math.sqrt(len(values)))
        done = k == 2
        made.append(
            Look(
                k=k,
                pairs=len(values),
                estimate=math.exp(mean),
                ci=(math.exp(mean - half), math.exp(mean + half)),
                gain=1 - math.exp(-mean),
                floor=0.0231 / math.sqrt(k),
                z=min(z, 5.1 if k == 1 else 9.4),
                boundary=boundary,
                decision=final if done else "continue",
                reason={
                    "accept": "gain_above_noise",
                    "reject": "below_floor",
                    "inconclusive": "looks_spent",
                }[final]
                if done
                else "boundary_not_crossed",
            )
        )
    return made


def load_test(p99: tuple[float, float], over: tuple[int, int]) -> LoadTest:
    """Both arms at the recorded rate; p99.9 is absent for want of requests."""

    def arm(p99_ms: float, over_slo: int) -> ArmLoad:
        return ArmLoad(
            requests=1200,
            offered=38.2,
            achieved=38.1,
            errors=0,
            over_slo=over_slo,
            latency_ms={"p50": p99_ms * 0.47, "p90": p99_ms * 0.74, "p95": p99_ms * 0.83}
            | {"p99": p99_ms},
            lag_p99_ms=0.41,
        )

    difference, ci, _, _ = stats.commit_gate(over[0], 1200, over[1], 1200)
    return LoadTest(
        slo_p99_ms=SLO_MS,
        rate=38.2,
        baseline=arm(p99[0], over[0]),
        candidate=arm(p99[1], over[1]),
        over_slo_difference=difference,
        over_slo_ci=ci,
        p99_ratio=p99[0] / p99[1],
        p99_ci=(p99[0] / p99[1] * 0.9, p99[0] / p99[1] * 1.12),
        outputs_compared=1200,
    )


def equivalence(differing: int = 0, *, limit: float | None = None) -> list[OutputRow]:
    """Two outputs of the ensemble."""
    moved = 3.1e-6 if differing else 0.0
    return [
        OutputRow(
            output="score",
            dtype="FP32",
            requests=412,
            elements=204_764,
            differing=differing,
            max_abs=moved,
            p999_abs=moved / 4,
            outliers=0,
            limit=limit,
            referee_max_baseline=4.71e-6,
            referee_max_candidate=4.71e-6 + moved / 10,
            referee_p999_baseline=9.3e-7,
            referee_p999_candidate=9.3e-7,
            referee_requests=48,
        ),
        OutputRow(
            output="item_id",
            dtype="INT64",
            requests=412,
            elements=204_764,
            differing=0,
            max_abs=0.0,
            p999_abs=0.0,
            outliers=0,
            limit=None,
        ),
    ]


def passed(*names: str) -> list[Gate]:
    """Gates that all passed."""
    reasons = {
        "paths": "paths_allowed",
        "plan": "within_its_plan",
        "activation": "activation_seen",
        "refusals": "refusals_identical",
        "correctness": "outputs_identical",
        "memory": "no_memory_seen",
        "gain": "gain_above_noise",
        "commit": "slo_not_worse",
        "confirm": "gain_confirmed",
    }
    return [Gate(name=n, result=GateResult.PASS, reason=reasons[n]) for n in names]


def end_to_end(rows: list[Pair], load: LoadTest) -> EndToEnd:
    """The printed gain of the confirming pairs."""
    gain = stats.confirm(stats.by_launch(rows), NOISE.work)
    cpu = stats.ratio_ci([r.cpu_ratio for r in rows])
    return EndToEnd(
        throughput_ratio=gain.ratio,
        ci=gain.ci,
        cpu_ratio=cpu.ratio,
        cpu_ci=cpu.ci,
        p99_ratio=load.p99_ratio,
        pairs=len(rows),
    )


def accepted_iteration() -> Iteration:
    """One pass over the request's inputs: accepted on the second look."""
    tried = pairs(1.43, 0.014, 2, seed=3)
    confirm = pairs(1.42, 0.014, 1, seed=4, first=3)
    load = load_test((47.8, 31.4), (7, 1))
    return Iteration(
        n=1,
        layer=LayerName.FEATURES,
        card="lookups-one-pass",
        hypothesis=HypothesisRecord(
            title="Look the request's inputs up in one pass",
            why="get_input_tensor_by_name takes 31.2 % of server CPU: 126 look-ups each scan "
            "up to 126 inputs of the request",
            model="features",
            share=0.312,
            expected_gain=0.9,
            score=0.281,
            change_class=ChangeClass.EXACT,
            sites=["models/features/1/model.py:188", "models/features/1/model.py:203"],
        ),
        verdict=Verdict.ACCEPTED,
        reason="gain_above_noise",
        gates=passed(*GATES),
        equivalence=equivalence(),
        local=LocalGain(
            what="CPU per request of the features process", speedup=1.62, ci=(1.58, 1.66), n=8
        ),
        looks=looks(tried, "accept"),
        pairs=tried,
        confirm=confirm,
        end_to_end=end_to_end(confirm, load),
        load_test=load,
        branch="fvec/lookups-one-pass/features",
        commit="91c22e7f3f6a2b55f0d1c7be2e0c8b8a93f4d102",
        base_commit=BASE,
        outputs_compared=3_052,
        explanation="`get_input_tensor_by_name` scans the request's inputs from the start on "
        "every call, so reading n inputs costs n * n / 2 comparisons. The rewrite walks "
        "`request.inputs()` once per request and keeps a dictionary from name to tensor.\n\n"
        "- The tensors are the same objects; nothing is copied or converted.\n"
        "- A missing input still gives `None`; of duplicate names the first still wins.\n"
        "- The dictionary lives as long as the request: there is no state between requests.",
        patch_sha256="5f2d9c0f7be61c1d57d8f2b0d9a1c2b7e5f36a70dfc2b6be3a47a1be0d5c9a11",
        files_changed=["models/features/1/model.py"],
        wall_s=163.0,
    )


def second_iteration() -> Iteration:
    """Native string conversion, stacked on the first."""
    first = accepted_iteration()
    tried = pairs(1.36, 0.016, 2, seed=8)
    confirm = pairs(1.35, 0.016, 1, seed=9, first=3)
    load = load_test((31.6, 22.9), (2, 0))
    return first.model_copy(
        update={
            "n": 2,
            "layer": LayerName.SERVER,
            "card": "native-string-tensors",
            "hypothesis": HypothesisRecord(
                title="Convert string tensors in native code",
                why="deserialize_bytes_tensor takes 30.4 % of server CPU before the model runs",
                model="features",
                share=0.304,
                expected_gain=0.95,
                score=0.289,
                change_class=ChangeClass.EXACT,
                sites=["models/features/1/model.py:9"],
            ),
            "local": LocalGain(
                what="deserialize 2,000 strings, interleaved", speedup=27.4, ci=(26.8, 28.1), n=60
            ),
            "looks": looks(tried, "accept"),
            "pairs": tried,
            "confirm": confirm,
            "end_to_end": end_to_end(confirm, load),
            "load_test": load,
            "branch": "fvec/native-string-tensors/features",
            "commit": "0d6b8a3e5c417f29b8e2a1d3c4f5a6b7c8d9e0f1",
            "base_commit": first.commit,
            "explanation": "The server converts every string tensor in Python, element by "
            "element, before `execute` is called. The hook replaces that function by a "
            "bounds-checked native one with the same result.",
            "files_changed": [
                "models/features/1/fvec_native/__init__.py",
                "models/features/1/fvec_native/_bytes.c",
                "models/features/1/fvec_native/build.py",
                "models/features/1/model.py",
            ],
            "wall_s": 201.0,
        }
    )


def refused_iterations() -> list[Iteration]:
    """One of each other verdict."""
    common: dict[str, Any] = {"base_commit": BASE, "wall_s": 48.0}

    def hypothesis(title: str, share: float, gain: float, kind: ChangeClass) -> HypothesisRecord:
        return HypothesisRecord(
            title=title,
            why=f"{title}: {share:.1%} of server CPU",
            model="features",
            share=share,
            expected_gain=gain,
            score=share * gain,
            change_class=kind,
        )

    slow = pairs(1.004, 0.014, 2, seed=11)
    unsure = pairs(1.021, 0.022, 2, seed=12)
    return [
        Iteration(
            n=3,
            layer=LayerName.FEATURES,
            card="concat-to-slices",
            hypothesis=hypothesis(
                "Write features into one buffer", 0.094, 0.5, ChangeClass.REORDER
            ),
            verdict=Verdict.REJECTED,
            reason="outputs_differ",
            detail="score: 18 of 204,764 elements beyond 1e-4",
            gates=[
                *passed("paths", "refusals"),
                Gate(
                    name="correctness",
                    result=GateResult.FAIL,
                    reason="outputs_differ",
                    detail="score: 18 of 204,764 elements beyond 1e-4",
                ),
            ],
            equivalence=equivalence(18, limit=1e-4),
            **common,
        ),
        Iteration(
            n=4,
            layer=LayerName.CONFIG,
            card="queue-delay",
            hypothesis=hypothesis("Drop the queue delay", 1.0, 0.02, ChangeClass.CONFIG),
            verdict=Verdict.REJECTED,
            reason="below_floor",
            looks=looks(slow, "reject"),
            pairs=slow,
            **common,
        ),
        Iteration(
            n=5,
            layer=LayerName.CONFIG,
            card="instance-count",
            hypothesis=hypothesis("Run two instances", 0.81, 0.3, ChangeClass.CONFIG),
            verdict=Verdict.INCONCLUSIVE,
            reason="looks_spent",
            looks=looks(unsure, "inconclusive"),
            pairs=unsure,
            **common,
        ),
        Iteration(
            n=6,
            layer=LayerName.CONFIG,
            card="intra-op-threads",
            hypothesis=hypothesis("One intra-op thread", 0.13, 0.2, ChangeClass.CONFIG),
            verdict=Verdict.FAILED,
            reason="server_did_not_start",
            detail="the server left with status 1; see launch-9/triton.log",
            **common,
        ),
    ]


def evidence() -> EvidenceFile:
    """The evidence of the first accepted iteration."""
    iteration = accepted_iteration()
    return EvidenceFile(
        run_id="20261129-174512-ads-serving",
        stack=STACK,
        environment=ENVIRONMENT,
        seed=7,
        profile=PROFILE,
        noise=NOISE,
        iteration=iteration,
        others=[second_iteration(), *refused_iterations()],
        on_top=ON_TOP,
        blocks=blocks([*iteration.pairs, *iteration.confirm], 0.38),
        reproduce=["fvec", "run", ".", "--seed", "7", "--layer", "features"],
    )


ON_TOP = OnTop(
    n=1,
    verdict="pays",
    reason="gain_above_noise",
    others=[2],
    look=Look(
        k=1,
        pairs=4,
        estimate=1.41,
        ci=(1.38, 1.44),
        gain=0.291,
        floor=0.023,
        z=21.4,
        boundary=7.9,
        decision="accept",
        reason="gain_above_noise",
    ),
)


def run_report() -> RunReport:
    """The whole run: two accepted, four not."""
    return RunReport(
        run_id="20261129-174512-ads-serving",
        started_at="2026-11-29T17:45:12Z",
        stack=STACK,
        environment=ENVIRONMENT,
        seed=7,
        reproduce=["fvec", "run", ".", "--seed", "7"],
        profile=PROFILE,
        noise=NOISE,
        iterations=[accepted_iteration(), second_iteration(), *refused_iterations()],
        on_top=[ON_TOP],
        sampled=[
            "1: features, weight 0.58 of 0.58 + 0.27 + 1.00 x 0.05 (config)",
            "2: server, weight 0.44 after features/lookups-one-pass was accepted",
            "3: features, weight 0.31",
            "4: config, nothing else left that beats the noise",
        ],
        not_tried=[
            "config/queue-policy-from-slo: its best case, 0 %, is below the noise (0.82 %)",
            "server/native-string-tensors on ranker: no string inputs",
        ],
        conclusion="2 changes accepted, 3.92 times the sustained rate at the SLO; no hypothesis "
        "left whose best case beats the noise",
        total=Total(
            throughput_ratio=3.92,
            ci=(3.61, 4.27),
            start=SustainedArm(rate=41.3, ci=(39.2, 43.5), windows=12, void_windows=1),
            end=SustainedArm(rate=162.0, ci=(151.0, 173.0), windows=13, void_windows=0),
            p99_ratio=3.11,
            p99_ci=(2.74, 3.58),
            p99_rate=41.3,
            p99_requests=1_000,
            p99_ms=(52.4, 16.8),
            slo_p99_ms=SLO_MS,
            cpu_ratio=3.75,
            cpu_ci=(3.68, 3.83),
            cpu_pairs=4,
        ),
        pull_requests=[
            PullRequestRecord(
                forge="local",
                number=1,
                branch="fvec/lookups-one-pass/features",
                base="main",
                title="features: Look the request's inputs up in one pass",
                body="forge/pulls/1/body.md",
                iterations=[1],
            ),
            PullRequestRecord(
                forge="local",
                number=2,
                branch="fvec/native-string-tensors/features",
                base="fvec/lookups-one-pass/features",
                title="server: Convert string tensors in native code",
                body="forge/pulls/2/body.md",
                iterations=[2],
            ),
        ],
        knowledge=KnowledgeRecord(
            branch="fvec/knowledge",
            cards_changed=["features/lookups-one-pass", "server/native-string-tensors"],
        ),
        blocks_void=3,
        wall_s=1042.0,
    )


def empty_report() -> RunReport:
    """A run that tried nothing and says why."""
    return run_report().model_copy(
        update={
            "iterations": [],
            "on_top": [],
            "sampled": [],
            "not_tried": [],
            "conclusion": "nothing to try: the cookbook holds no card for the layers "
            "features, server, config",
            "total": None,
            "pull_requests": [],
            "profile": None,
            "noise": None,
            "knowledge": KnowledgeRecord(branch=None, cards_changed=[]),
            "blocks_void": 0,
            "wall_s": 31.0,
        }
    )


def plan_report() -> PlanReport:
    """Three ranked hypotheses, one of them skipped."""
    first, second = accepted_iteration(), second_iteration()
    third = refused_iterations()[1]
    return PlanReport(
        stack=STACK,
        environment=ENVIRONMENT,
        profile=PROFILE,
        hypotheses=[
            RankedHypothesis(layer=second.layer, card=second.card, hypothesis=second.hypothesis),
            RankedHypothesis(layer=first.layer, card=first.card, hypothesis=first.hypothesis),
            RankedHypothesis(
                layer=third.layer,
                card=third.card,
                hypothesis=third.hypothesis,
                skip="best case 0.5 % is below the noise (0.82 %)",
            ),
        ],
    )


def measure_report() -> MeasureReport:
    """A calibration with what it could resolve."""
    return MeasureReport(
        stack=STACK,
        environment=ENVIRONMENT,
        noise=NOISE,
        resolvable=[(0.0231, 1, 1.4), (0.0163, 2, 2.8), (0.0116, 4, 5.6), (0.0082, 8, 11.2)],
        blocks=blocks(pairs(1.0, 0.014, 2, seed=1), 0.0),
    )

"""Evidence: everything that led to a verdict, as data.

The pull request, the report and the terminal are renderings of these models; a number that is
not here is not shown anywhere. Persisted as JSON with a `schema` field.

Format history:
    fvec.run/1, fvec.evidence/1, fvec.plan/1, fvec.measure/1   first version
    fvec.judge/1, fvec.verify/1                                added with `fvec judge` and `verify`
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from knowledge.ground import change_name
from layers.base import COOKBOOK, ChangeClass, LayerName
from layers.story import AgentsReport, ContractRecord, Story

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Interval = tuple[float, float]  # lower and upper end, 95 % unless a field says otherwise
# "1/2": the part of a run that several runners shared; None: a run by itself.
ShardName = Annotated[str | None, Field(pattern=r"^[1-9][0-9]?/[1-9][0-9]?$")]


class Record(BaseModel):
    """Base of all evidence: frozen, no unknown fields, finite numbers only."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Verdict(StrEnum):
    """What became of a candidate. A crash of the tool is `failed`, never a judgement."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    INCONCLUSIVE = "inconclusive"
    FAILED = "failed"


class GateResult(StrEnum):
    """What one gate answers."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class Gate(Record):
    """One check that a candidate must pass; `reason` is a stable code such as `outputs_differ`."""

    name: str
    result: GateResult
    reason: str
    detail: str = ""


class OutputRow(Record):
    """Equivalence of one output tensor over all compared requests."""

    output: str
    dtype: str
    requests: int
    elements: int
    differing: int  # elements whose bits differ
    max_abs: float
    p999_abs: float
    outliers: int  # elements beyond the limit of the change class
    limit: float | None  # None: bits must match
    referee_max_baseline: float | None = None  # |baseline - float64 referee|
    referee_max_candidate: float | None = None
    referee_p999_baseline: float | None = None
    referee_p999_candidate: float | None = None
    referee_requests: int = 0


class Block(Record):
    """One measured stretch of load on one arm."""

    arm: Literal["baseline", "candidate"]
    measure: Literal["work", "sustained", "tail"]
    launch: int
    pair: int
    position: Literal[1, 2]  # order inside the pair
    requests: int
    completed: int
    errors: int
    wall_s: float
    rate: float  # completions per second
    offered: float | None = None  # requests per second; None at fixed in-flight load
    in_flight: int | None = None
    cpu_s: dict[str, float] = Field(
        default_factory=dict
    )  # by process: "tritonserver", a model, or "other": programs that these started
    server_cpu: float | None = None  # cores used by all processes of this arm
    idle_cpu: float | None = None  # cores used by the other arm meanwhile
    idle_frozen: bool | None = None  # whether that was held still; None: nothing ran beside it
    faults_per_s: float | None = None  # pages of this arm's memory that had to be read meanwhile
    memory_stalled: float | None = None  # share of the time in which some of it waited for memory
    generator_cpu: float  # cores used by the load generator
    lag_p99_ms: float | None = None  # sent minus scheduled
    neighbour_cpu: float  # cores used by anything that is neither an arm, generator nor bot
    over_slo: int | None = None
    over_slo_in_time: int | None = None  # of those, from the send on: sent before any send was late
    latency_ms: dict[str, float] = Field(default_factory=dict)  # "p50".. where n >= 10/(1-q)
    void: str | None = None  # reason code; a void block decides nothing
    started_at: float | None = None  # seconds since the Unix epoch
    inferences: dict[str, int] = Field(default_factory=dict)  # rows that each model ran
    at_least: bool = False  # the load generator was the limit: the arm may do more
    log_lines: int | None = None  # logged meanwhile; None: not known, or in older evidence
    log_bytes: int | None = None


class Pair(Record):
    """A baseline and a candidate block over the same requests, in random order."""

    launch: int
    pair: int
    throughput_ratio: float
    cpu_ratio: float  # baseline CPU per request over the candidate's; above 1 is better
    at_least: bool = False  # the candidate's block is a lower bound of what it can do


class VoidPair(Record):
    """Two blocks that decided nothing and were measured again, and what they would have said."""

    launch: int
    pair: int
    measure: Literal["work", "sustained", "tail"]
    arms: list[Literal["baseline", "candidate"]]  # whose block was void
    reason: str
    throughput_ratio: float | None = None  # of work blocks, candidate over baseline
    requests: int
    over_slo_in_time: tuple[int, int] | None = None  # of the others: baseline, candidate


class ArmCosts(Record):
    """What one arm took besides CPU: medians over the launches of a trial."""

    ready_s: float  # from its start to its first answer
    # What cannot be dropped, before the load and after it, and the most that was held, files that
    # were read included; None without a control group, or where the kernel does not say.
    memory_begin_mib: float | None = None
    memory_end_mib: float | None = None
    memory_peak_mib: float | None = None


class Costs(Record):
    """What both arms of a trial took: whole arms, with all that they started."""

    launches: int
    baseline: ArmCosts
    candidate: ArmCosts
    cpu_ratio: float | None = None  # per request, baseline over candidate, over all launches
    cpu_ci: Interval | None = None


class Look(Record):
    """One look at the accumulated launches, and what the rule said there."""

    k: int  # launches seen
    pairs: int
    estimate: float  # throughput ratio, candidate over baseline
    ci: Interval
    gain: float  # 1 - 1/estimate
    floor: float  # e / sqrt(k)
    z: float
    boundary: float  # the z that this look asks for: O'Brien-Fleming's, or more
    decision: Literal["accept", "reject", "continue", "inconclusive"]
    reason: str


class NoiseFloor(Record):
    """What the unmodified stack differs by from itself, in one measure, in this run."""

    floor_pct: float  # e: 95 % half-width of the A/A difference at the base look, percent
    pair_sd_pct: float
    launch_sd_pct: float | None = None  # None with a single launch
    pairs: int
    launches: int
    median_pct: float = 0.0  # the A/A difference itself
    launch_differences_pct: list[float] = Field(default_factory=list)  # its mean, per launch


class Noise(Record):
    """The noise floor of each measure."""

    work: NoiseFloor
    sustained: NoiseFloor | None = None
    tail: NoiseFloor | None = None


class LocalGain(Record):
    """What the changed part gained by itself; says nothing yet about the stack."""

    what: str  # e.g. "deserialize 2,000 strings, interleaved"
    speedup: float
    ci: Interval
    n: int


class EndToEnd(Record):
    """The gain of the whole stack, from fresh pairs measured after acceptance."""

    throughput_ratio: float
    ci: Interval
    cpu_ratio: float
    cpu_ci: Interval
    p99_ratio: float | None = None
    pairs: int


class ArmLoad(Record):
    """One arm of an open-loop load test."""

    requests: int
    offered: float
    achieved: float
    errors: int
    over_slo: int
    latency_ms: dict[str, float]
    lag_p99_ms: float


class LoadTest(Record):
    """The commit gate: the full stack, open loop at the recorded rate, against the SLO."""

    slo_p99_ms: float
    rate: float
    baseline: ArmLoad
    candidate: ArmLoad
    over_slo_difference: float  # candidate minus baseline, share of requests
    over_slo_ci: Interval
    p99_ratio: float | None  # baseline over candidate; above 1 is better
    p99_ci: Interval | None
    outputs_compared: int
    void: str | None = None


class HotspotRecord(Record):
    """One line of the profile table."""

    process: str
    place: str  # "function in file"
    share: Share


class FloorRecord(Record):
    """The least time of one request on this machine, beside what it took: known before any profile.

    `stop`: so near the floor that no profiler was opened; `suspect`: below it, a number is wrong.
    """

    t_opt_s: float = Field(gt=0)  # if all resources overlap
    t_sum_s: float = Field(gt=0)  # if none does
    resources: dict[str, float]  # seconds of each: "link", "memory", "arithmetic"
    binding: str
    measured_s: float = Field(gt=0)  # per completed request, at fixed in-flight load
    ratio: float  # measured over t_opt
    declared: bool  # whether the manifest says what a request needs besides its messages
    action: Literal["profile", "stop", "suspect"]
    reason: str


class ProfileRecord(Record):
    """Where the time went before the first change; empty where the floor is near."""

    tool: str
    raw: str
    cpu_s: float
    requests: int
    by_process: dict[str, float]
    by_layer: dict[str, float]
    hotspots: list[HotspotRecord]
    by_phase: dict[str, dict[str, Share]] = Field(
        default_factory=dict
    )  # of server CPU, by model: "receive", "compute", "assemble", "outside"
    floor: FloorRecord | None = None  # None in evidence older than this field


class HypothesisRecord(Record):
    """What was expected before anything was written."""

    title: str
    why: str
    model: str
    share: Share
    expected_gain: Share
    score: float
    change_class: ChangeClass
    sites: list[str] = Field(default_factory=list)
    on_top: list[str] = Field(default_factory=list)  # changes accepted before: "card on model"
    together: list[str] = Field(default_factory=list)  # changes that this candidate joins
    proposer: str = COOKBOOK  # what wrote it
    contract: ContractRecord | None = None  # of what an agent wrote


class KindCount(Record):
    """How requests of one kind were answered, one at a time; both arms answered, or one refused."""

    answered: int
    refused: int


class TrafficRecord(Record):
    """What a trial sent besides its recording, and what of it could not be made new."""

    kinds: dict[str, KindCount]  # one at a time: recorded, renewed, and each kind of mutation
    not_tried: list[str] = Field(default_factory=list)  # kinds of mutation, each with the reason
    renewed: str  # how timed requests were made new
    elements: int = 0  # of their inputs, in this run so far
    kept: int = 0  # of those: values of the recording
    seeds: dict[str, str] = Field(default_factory=dict)  # hexadecimal; drawn anew in every trial


class Iteration(Record):
    """One turn of the loop, from hypothesis to verdict."""

    n: int
    layer: LayerName
    card: str
    hypothesis: HypothesisRecord
    verdict: Verdict
    reason: str
    detail: str = ""
    gates: list[Gate] = Field(default_factory=list)
    equivalence: list[OutputRow] = Field(default_factory=list)
    local: LocalGain | None = None
    looks: list[Look] = Field(default_factory=list)
    pairs: list[Pair] = Field(default_factory=list)
    confirm: list[Pair] = Field(default_factory=list)
    voids: list[VoidPair] = Field(default_factory=list)  # pairs that were dropped, in order
    costs: Costs | None = None  # None where nothing was served, and in older evidence
    end_to_end: EndToEnd | None = None
    load_test: LoadTest | None = None
    branch: str | None = None
    commit: str | None = None
    base_commit: str | None = None
    explanation: str = ""
    outputs_compared: int = 0  # answers of both arms held against each other, timed ones included
    patch_sha256: str | None = None
    files_changed: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)  # what a reviewer should know, one line each
    traffic: TrafficRecord | None = None  # None in evidence older than this field
    profile: ProfileRecord | None = (
        None  # of this commit under load, where its signs were looked for
    )
    story: Story | None = None  # how an agent wrote it
    wall_s: float = 0.0


def changes_of(iteration: Iteration) -> list[str]:
    """Return the names of the changes that a candidate made: those it joined, or its own."""
    return iteration.hypothesis.together or [
        change_name(iteration.card, iteration.hypothesis.model)
    ]


class Moved(Record):
    """An accepted change as it would stand without an earlier one, held to its class there."""

    n: int
    commit: str  # the change there
    base_commit: str
    measured_commit: str  # the change as it was accepted: the gain was measured at this one
    gates: list[Gate]  # paths and correctness of `commit` against `base_commit`
    outputs_compared: int


class OnTop(Record):
    """An accepted change, measured again on top of all the others that were accepted.

    `pays`: the looks accept it again; `dropped`: they reject it, and it is taken out of the stack;
    `inconclusive`: they cannot tell, and it stays for what it was accepted for; `not_separable`:
    the others build on it, or answer otherwise without it; `not_measured`: no time, or a tool broke.
    """

    n: int
    verdict: Literal["pays", "dropped", "inconclusive", "not_separable", "not_measured"]
    reason: str
    others: list[int]  # the accepted changes that it was measured on top of
    look: Look | None = None  # the last one: the stack against the same stack without the change
    moved: list[Moved] = Field(default_factory=list)  # later ones, without it; one may have failed


class Environment(Record):
    """The machine and the versions that the numbers belong to."""

    cpu: str
    cores: int
    memory_gib: float
    kernel: str
    python: str
    server: str
    packages: dict[str, str] = Field(default_factory=dict)
    server_cpus: list[int] = Field(default_factory=list)
    generator_cpus: list[int] = Field(default_factory=list)
    sandbox: str | None = None  # what candidates ran in: program, limits, network
    bandwidth: dict[str, float] = Field(default_factory=dict)  # GB/s measured: "copy", "link"


class Peak(Record):
    """The busiest load and the replicas that carry it today, from the manifest."""

    rate: float  # requests per second, all replicas together
    replicas: int


class StackRecord(Record):
    """Which serving repository, at which commit."""

    name: str
    commit: str
    entry: str
    slo_p99_ms: float
    recorded_rate: float
    requests: int
    candidates_mean: float | None = None
    owner: str | None = None  # who answers for the bot's pull requests, from the manifest
    peak: Peak | None = None


class SustainedArm(Record):
    """The rate one arm holds at the SLO, open loop."""

    rate: float
    ci: Interval
    windows: int
    void_windows: int


class Total(Record):
    """One start against one end, measured beside each other; never a sum of gains."""

    throughput_ratio: float  # sustained rate at the SLO, end over start
    ci: Interval
    start: SustainedArm
    end: SustainedArm
    p99_ratio: float | None  # start over end, at a rate that the start surely sustains
    p99_ci: Interval | None
    p99_rate: float | None
    p99_requests: int | None = None  # per arm
    p99_ms: tuple[float, float] | None = None  # start, end
    slo_p99_ms: float
    cpu_ratio: float | None = None
    cpu_ci: Interval | None = None
    cpu_pairs: int | None = None


class PullRequestRecord(Record):
    """Where an accepted candidate went."""

    forge: Literal["local", "github"]
    number: int
    branch: str
    base: str
    title: str
    body: str  # path or URL
    iterations: list[int]


class KnowledgeRecord(Record):
    """What the run taught."""

    branch: str | None
    cards_changed: list[str]
    problems: list[str] = Field(default_factory=list)  # cards that could not take their findings


class RunReport(Record):
    """`fvec run --json`."""

    schema_: Literal["fvec.run/1"] = Field(default="fvec.run/1", alias="schema")
    run_id: str
    started_at: str  # ISO 8601, UTC
    stack: StackRecord
    environment: Environment
    seed: int
    profile: ProfileRecord | None = None
    noise: Noise | None = None
    iterations: list[Iteration] = Field(default_factory=list)
    on_top: list[OnTop] = Field(default_factory=list)  # accepted changes on top of the others
    sampled: list[str] = Field(default_factory=list)  # why each layer was drawn, one line each
    not_tried: list[str] = Field(default_factory=list)  # one line each, with the reason
    conclusion: str  # one line: why the run ended as it did
    total: Total | None = None
    pull_requests: list[PullRequestRecord] = Field(default_factory=list)
    knowledge: KnowledgeRecord
    blocks_void: int = 0
    agents: AgentsReport | None = None  # what models and programs wrote, where any was asked
    shard: ShardName = None
    reproduce: list[str] = Field(default_factory=list)  # argv of the command that measures again
    wall_s: float

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )


class EvidenceFile(Record):
    """`evidence.json` of a pull request: one accepted iteration with all that it rests on."""

    schema_: Literal["fvec.evidence/1"] = Field(default="fvec.evidence/1", alias="schema")
    run_id: str
    stack: StackRecord
    environment: Environment
    seed: int
    profile: ProfileRecord | None  # of this change's own baseline
    noise: Noise
    iteration: Iteration
    others: list[Iteration]  # what else the run tried, verdicts only matter
    on_top: OnTop | None = None  # the same change on top of all others that the run accepted
    moved: Moved | None = None  # where it was committed anew after the gain was measured
    total: Total | None = None  # of the run, where it accepted this change alone
    blocks: list[Block]
    reproduce: list[str]  # argv of the command that measures again
    shard: ShardName = None

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )


class RankedHypothesis(Record):
    """One row of `fvec plan`."""

    layer: LayerName
    card: str
    hypothesis: HypothesisRecord
    skip: str | None = None  # why it would not be tried


class PlanReport(Record):
    """`fvec plan --json`."""

    schema_: Literal["fvec.plan/1"] = Field(default="fvec.plan/1", alias="schema")
    stack: StackRecord
    environment: Environment
    profile: ProfileRecord
    hypotheses: list[RankedHypothesis]

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )


class MeasureReport(Record):
    """`fvec measure --json`."""

    schema_: Literal["fvec.measure/1"] = Field(default="fvec.measure/1", alias="schema")
    stack: StackRecord
    environment: Environment
    noise: Noise
    resolvable: list[tuple[float, int, float]]  # gain, launches, minutes: smallest gain in reach
    blocks: list[Block]

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )


class JudgeReport(Record):
    """`fvec judge --json`: one given patch or callable, by the same gates as the loop's own."""

    schema_: Literal["fvec.judge/1"] = Field(default="fvec.judge/1", alias="schema")
    target: Literal["patch", "callable"]
    subject: str  # what was judged against what, for people: no path of this machine
    change_class: ChangeClass
    verdict: Verdict
    reason: str
    detail: str = ""
    gates: list[Gate] = Field(default_factory=list)
    equivalence: list[OutputRow] = Field(default_factory=list)
    outputs_compared: int = 0
    noise: Noise | None = None
    looks: list[Look] = Field(default_factory=list)
    pairs: list[Pair] = Field(default_factory=list)
    confirm: list[Pair] = Field(default_factory=list)
    voids: list[VoidPair] = Field(default_factory=list)  # of a patch: pairs that were dropped
    costs: Costs | None = None  # of a patch; None where nothing was served, and in older evidence
    local: LocalGain | None = None
    end_to_end: EndToEnd | None = None
    load_test: LoadTest | None = None
    resolvable: list[tuple[float, int, float]] = Field(default_factory=list)  # as MeasureReport's
    warnings: list[str] = Field(default_factory=list)  # what a reviewer should know, one line each
    traffic: TrafficRecord | None = None  # of a patch; None in evidence older than this field
    stack: StackRecord | None = None  # of a patch
    environment: Environment
    seed: int
    patch_sha256: str | None = None
    files_changed: list[str] = Field(default_factory=list)
    blocks: list[Block] = Field(default_factory=list)
    reproduce: list[str] = Field(default_factory=list)  # argv that judges again
    wall_s: float

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )


class VerifyReport(Record):
    """`fvec verify --json`: the evidence of a pull request, measured again."""

    schema_: Literal["fvec.verify/1"] = Field(default="fvec.verify/1", alias="schema")
    evidence: str  # run id and branch of what was verified
    verdict: Verdict  # accepted: holds again; rejected: a gate fails now, or the gain differs
    reason: str
    detail: str = ""
    recorded: EndToEnd | None
    again: EndToEnd | None
    difference: float | None = None  # throughput ratio, again over recorded
    difference_ci: Interval | None = None
    judged: JudgeReport  # the new measurement, whole

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )

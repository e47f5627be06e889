"""One candidate's trial while it is under way: what has been seen so far, and how it ends."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from layers.base import Candidate, ChangeClass, Hypothesis
from layers.evidence import (
    Block,
    EndToEnd,
    Gate,
    GateResult,
    HypothesisRecord,
    Iteration,
    LoadTest,
    LocalGain,
    Look,
    OutputRow,
    Pair,
    Verdict,
)
from layers.measure import stats
from layers.measure.launch import Arm


class TrialEnded(Exception):  # an answer, not an error
    """A trial's end, raised where it is found; carries what to record."""

    def __init__(self, verdict: Verdict, reason: str, detail: str = "") -> None:
        """Keep the verdict with its stable reason code."""
        super().__init__(reason)
        self.verdict = verdict
        self.reason = reason
        self.detail = detail


@dataclass
class Trial:
    """Evidence of one candidate, filled station by station."""

    n: int
    candidate: Candidate
    gates: list[Gate] = field(default_factory=list)
    equivalence: list[OutputRow] = field(default_factory=list)
    local: LocalGain | None = None
    looks: list[Look] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    launches: list[list[Pair]] = field(default_factory=list)
    block_cpu: list[dict[Arm, Block]] = field(default_factory=list)  # of every pair in `pairs`
    confirm: list[Pair] = field(default_factory=list)
    end_to_end: EndToEnd | None = None
    load_test: LoadTest | None = None
    outputs_compared: int = 0
    warnings: list[str] = field(default_factory=list)

    @property
    def approximate(self) -> bool:
        """Whether the change is an approximation."""
        return self.candidate.hypothesis.change_class is ChangeClass.APPROXIMATE

    def pass_or_end(self, gate: Gate) -> None:
        """Keep a gate's answer and end the trial unless it passed."""
        self.gates.append(gate)
        if gate.result is GateResult.FAIL:
            raise TrialEnded(Verdict.REJECTED, gate.reason, gate.detail)
        if gate.result is GateResult.INCONCLUSIVE:
            raise TrialEnded(Verdict.INCONCLUSIVE, gate.reason, gate.detail)

    def iteration(self, end: TrialEnded, wall_s: float) -> Iteration:
        """Return the record of the finished trial."""
        hypothesis, edit = self.candidate.hypothesis, self.candidate.edit
        return Iteration(
            n=self.n,
            layer=hypothesis.layer,
            card=hypothesis.card,
            hypothesis=hypothesis_record(hypothesis, title=edit.summary),
            verdict=end.verdict,
            reason=end.reason,
            detail=end.detail,
            gates=self.gates,
            equivalence=self.equivalence,
            local=self.local,
            looks=self.looks,
            pairs=self.pairs,
            confirm=self.confirm,
            end_to_end=self.end_to_end,
            load_test=self.load_test,
            branch=self.candidate.branch,
            commit=self.candidate.commit,
            base_commit=self.candidate.base_commit,
            explanation=edit.explanation,
            outputs_compared=self.outputs_compared,
            patch_sha256=hashlib.sha256(
                self.candidate.patch.encode("utf-8", "surrogateescape")
            ).hexdigest(),
            files_changed=sorted(edit.files),
            warnings=self.warnings,
            wall_s=wall_s,
        )


def hypothesis_record(hypothesis: Hypothesis, *, title: str | None = None) -> HypothesisRecord:
    """Return a hypothesis as evidence, under the title of its edit once there is one."""
    return HypothesisRecord(
        title=title or hypothesis.title,
        why=hypothesis.why,
        model=hypothesis.model,
        share=hypothesis.share,
        expected_gain=hypothesis.expected_gain,
        score=hypothesis.score,
        change_class=hypothesis.change_class,
        sites=list(hypothesis.sites),
        on_top=list(hypothesis.on_top),
        together=[member.change for member in hypothesis.together],
    )


def process_gain(trial: Trial) -> LocalGain | None:
    """Return the ratio of CPU per request of the changed model's process, over all pairs."""
    model = trial.candidate.hypothesis.model
    ratios = [_cpu_ratio(blocks, model) for blocks in trial.block_cpu]
    known = [ratio for ratio in ratios if ratio is not None]
    if len(known) < 2:
        return None
    gain = stats.ratio_ci(known)
    return LocalGain(
        what=f"CPU per request of the {model} process, {len(known)} pairs of blocks",
        speedup=gain.ratio,
        ci=gain.ci,
        n=gain.n,
    )


def _cpu_ratio(blocks: dict[Arm, Block], model: str) -> float | None:
    """Return baseline over candidate CPU of one process, or None where it has none to compare."""
    spent = {arm: block.cpu_s.get(model, 0.0) / block.completed for arm, block in blocks.items()}
    if min(spent.values()) <= 0:
        return None
    return spent["baseline"] / spent["candidate"]

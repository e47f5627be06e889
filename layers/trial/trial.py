"""One candidate's trial while it is under way: what has been seen so far, and how it ends."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from layers.base import Activation, Candidate, ChangeClass, Contract, Hypothesis
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
    ProfileRecord,
    TrafficRecord,
    Verdict,
)
from layers.measure import stats
from layers.measure.launch import Arm
from layers.measure.ledger import Ledger
from layers.story import MOST_TEXT, ContractRecord, SignRecord

DRAFT = 0  # number of what is held to the public checks alone, before there is a candidate


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
    ledger: Ledger = field(default_factory=Ledger)  # of all its launches
    end_to_end: EndToEnd | None = None
    load_test: LoadTest | None = None
    outputs_compared: int = 0
    warnings: list[str] = field(default_factory=list)
    traffic: TrafficRecord | None = None  # once probes were sent
    profile: ProfileRecord | None = None  # of the candidate, where its signs were looked for
    signs: list[SignRecord] | None = None  # of its contract; None: not looked for

    @property
    def approximate(self) -> bool:
        """Whether the change is an approximation."""
        return self.candidate.hypothesis.change_class is ChangeClass.APPROXIMATE

    @property
    def name(self) -> str:
        """What it is called where its progress is told, and in the names of its logs."""
        return "draft" if self.n == DRAFT else f"candidate {self.n}"

    @property
    def whole_cpu(self) -> stats.Estimate | None:
        """CPU per request of the whole arms, baseline over candidate: one ratio of each launch."""
        launches = stats.by_launch([*self.pairs, *self.confirm], cpu=True)
        means = [float(np.exp(np.mean(launch))) for launch in launches]
        return stats.ratio_ci(means) if len(means) > 1 else None

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
            hypothesis=hypothesis_record(hypothesis, title=edit.summary, signs=self.signs),
            verdict=end.verdict,
            reason=end.reason,
            detail=end.detail,
            gates=self.gates,
            equivalence=self.equivalence,
            local=self.local,
            looks=self.looks,
            pairs=self.pairs,
            confirm=self.confirm,
            voids=self.ledger.voids,
            costs=self.ledger.costs(self.whole_cpu),
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
            traffic=self.traffic,
            profile=self.profile,
            wall_s=wall_s,
        )


def hypothesis_record(
    hypothesis: Hypothesis, *, title: str | None = None, signs: Sequence[SignRecord] | None = None
) -> HypothesisRecord:
    """Return a hypothesis as evidence, under the title of its edit once there is one.

    `signs` are those of its contract, once they were looked for.
    """
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
        proposer=hypothesis.proposer,
        contract=_contract_record(hypothesis.contract, signs) if hypothesis.contract else None,
    )


def _contract_record(contract: Contract, signs: Sequence[SignRecord] | None) -> ContractRecord:
    """Return a contract as evidence; its signs say that nobody looked until somebody has."""
    if signs is None:
        signs = [sign_record(one) for one in contract.activation]
    return ContractRecord(
        claim=contract.claim[:MOST_TEXT],
        expected=contract.expected,
        activation=list(signs),
        falsifier=contract.falsifier[:MOST_TEXT],
        skill=contract.skill,
    )


def sign_record(one: Activation, *, seen: bool | None = None, detail: str = "") -> SignRecord:
    """Return a sign as evidence; `seen` is None where it was not looked for."""
    return SignRecord(
        sign=one.sign,
        model=one.model,
        subject=one.subject,
        value=one.value,
        seen=seen,
        detail=detail,
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

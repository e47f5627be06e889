"""Plans of agents, and their candidates' verdicts as a trial leaves them."""

from __future__ import annotations

import json

from layers.agents.plan import Plan
from layers.base import ChangeClass, LayerName, Sign
from layers.evidence import EndToEnd, HypothesisRecord, Iteration, Look, NoiseFloor, Verdict
from layers.story import ContractRecord, SignRecord

ISSUE = "look-ups-in-one-pass"
TITLE = "Look the inputs up in one pass"
MECHANISM = "`_inputs` runs once a request, but `as_numpy` in the stub now takes what it saved"
NOISE = NoiseFloor(floor_pct=2.0, pair_sd_pct=1.0, pairs=8, launches=2)
COMMIT = "c0ffee" * 6 + "c0ff"
DECISIONS = {
    Verdict.ACCEPTED: "accept",
    Verdict.REJECTED: "reject",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.FAILED: "continue",
}


def plan(issue: str = ISSUE, **changes: object) -> Plan:
    """A plan as a planner answers with it."""
    values = {
        "issue": issue,
        "title": TITLE,
        "layer": "features",
        "model": "features",
        "change_class": "exact",
        "claim": "Each look-up scans all inputs of the request, and there are as many as inputs.",
        "expected": [1.02, 1.3],
        "activation": [
            {"sign": "runs", "model": "features", "subject": "models/features/1/model.py:_inputs"}
        ],
        "falsifier": "The share of the look-ups falls and completions per second do not rise.",
    }
    return Plan.model_validate_json(json.dumps(values | changes))


def judged(
    verdict: Verdict,
    reason: str,
    ratio: float | None = None,
    *,
    issue: str = ISSUE,
    half: float = 0.01,
    commit: str = COMMIT,
    **changes: object,
) -> Iteration:
    """An iteration of an agent's candidate; `ratio` is what it gained, None: nothing was measured.

    `changes` are fields of the iteration, or `seen`, `skill` and `proposer` of its hypothesis.
    """
    sign = SignRecord(
        sign=Sign.RUNS,
        model="features",
        subject="models/features/1/model.py:_inputs",
        seen=changes.pop("seen", True),
    )
    contract = ContractRecord(
        claim="Each look-up scans all inputs.",
        expected=(1.02, 1.3),
        activation=[sign],
        falsifier="Completions do not rise.",
        skill=changes.pop("skill", ""),
    )
    proposer = changes.pop("proposer", "anthropic")
    hypothesis = HypothesisRecord(
        title=TITLE,
        why=contract.claim,
        model="features",
        share=0.3,
        expected_gain=0.2,
        score=0.06,
        change_class=ChangeClass.EXACT,
        proposer=proposer,
        contract=contract if proposer != "cookbook" else None,
    )
    fields = {
        "n": 1,
        "layer": LayerName.FEATURES,
        "card": issue,
        "hypothesis": hypothesis,
        "verdict": verdict,
        "reason": reason,
        "commit": commit,
        "base_commit": "b" * 40,
        "looks": [] if ratio is None else [_look(ratio, half, DECISIONS[verdict], reason)],
    }
    if verdict is Verdict.ACCEPTED and ratio is not None:
        fields["end_to_end"] = EndToEnd(
            throughput_ratio=ratio,
            ci=(ratio - half, ratio + half),
            cpu_ratio=ratio,
            cpu_ci=(ratio - half, ratio + half),
            pairs=4,
        )
    return Iteration.model_validate(fields | changes)


def _look(ratio: float, half: float, decision: str, reason: str) -> Look:
    return Look.model_validate(
        {
            "k": 1,
            "pairs": 4,
            "estimate": ratio,
            "ci": (ratio - half, ratio + half),
            "gain": 1 - 1 / ratio,
            "floor": 0.02,
            "z": 1.5,
            "boundary": 5.0,
            "decision": decision,
            "reason": reason,
        }
    )

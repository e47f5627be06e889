"""The performance evaluator: says by which mechanism a change gained or did not, and what is next.

It reads what the trial measured. It measures nothing, and a number that it is shown is named with
the commit that it belongs to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from layers.agents.roles.brief import MOST_NOTES, gain_line, profile_lines, record_lines
from layers.agents.roles.prompting import system
from layers.agents.service.conversation import AnswerTool, Speaker
from layers.agents.steps import told, without_answer
from layers.agents.workbench.quoting import Seen
from layers.agents.workbench.tools import reading_tools
from layers.agents.workbench.workspace import Workspace
from layers.base import Profile
from layers.evidence import Gate, Iteration
from layers.story import ContractRecord, Outcome, Role, SignRecord, Step, Told

MOST_HINTS = 5
MOST_DIFF = 20_000  # characters of a change

_TASK = "Explain this measurement."

Hint = Annotated[str, Field(min_length=10, max_length=400)]


class Advice(Told):
    """What the evaluator answers with."""

    where: str = Field(
        min_length=2, max_length=200, description="FILE:FUNCTION, a process or a served field"
    )
    mechanism: str = Field(
        min_length=20, max_length=1000, description="what happened there, with the numbers"
    )
    hints: list[Hint] = Field(
        default_factory=list, max_length=MOST_HINTS, description="what to look at next, and where"
    )
    notes: str = Field(
        default="", max_length=MOST_NOTES, description="the new notes; empty keeps the old ones"
    )


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What the evaluator came to; all but the step is empty where it came to nothing."""

    step: Step
    mechanism: str = ""
    hints: tuple[str, ...] = ()
    notes: str = ""


class PerformanceEvaluator:
    """Reads a verdict and two profiles."""

    def __init__(self, speaker: Speaker) -> None:
        """Take who speaks with the model."""
        self._speaker = speaker

    def evaluate(
        self,
        iteration: Iteration,
        before: Profile,
        notes: str,
        diff: str,
        workspace: Workspace,
        seen: Seen,
    ) -> Evaluated:
        """Explain an iteration; `before` is of its base commit, which the workspace holds."""
        tools = reading_tools(workspace, seen, Role.EVALUATOR)
        end = AnswerTool("advise", "End with the explanation and the hints.", Advice)
        prompt = system("performance_evaluator", "data")
        first = "\n\n".join([_TASK, *_sections(iteration, before, notes, diff, seen)])
        said = self._speaker.converse(Role.EVALUATOR, prompt, first, tools, end)
        advice = said.answer
        if advice is None:
            return Evaluated(without_answer(Role.EVALUATOR, 0, said))
        mechanism = f"{advice.where}: {advice.mechanism}"
        text = "\n".join([mechanism, *(f"Hint: {hint}" for hint in advice.hints)])
        step = told(Role.EVALUATOR, 0, said, Outcome.HINTS, text, commit=iteration.commit)
        return Evaluated(step, mechanism, tuple(advice.hints), advice.notes)


def _sections(
    iteration: Iteration, before: Profile, notes: str, diff: str, seen: Seen
) -> list[str]:
    base, commit = (iteration.base_commit or "")[:12], (iteration.commit or "")[:12]
    after = iteration.profile
    parts: list[tuple[str, str, Sequence[str]]] = [
        ("The verdict", f"commit {commit} against {base}", _verdict(iteration)),
        ("What was claimed", "the plan", _claimed(iteration.hypothesis.contract)),
        (f"The profile of the base, commit {base}", "the base's profile", profile_lines(before)),
    ]
    if after is not None:
        head = f"The profile of the change, commit {commit}"
        parts.append((head, "the change's profile", record_lines(after)))
    parts.append((f"The diff from {base} to {commit}", "the diff", [diff[:MOST_DIFF]]))
    parts.append(("Notes", "the notes", notes.splitlines()))
    shown = [
        f"# {head}\n{seen.quoted(chr(10).join(lines), place) if any(lines) else 'Nothing.'}"
        for head, place, lines in parts
    ]
    return [*shown, f"The files that you can read are those of commit {base}, before the change."]


def _verdict(iteration: Iteration) -> list[str]:
    lines = [f"{iteration.verdict}: {iteration.reason}", iteration.detail]
    lines += [f"gate {_gate(gate)}" for gate in iteration.gates]
    lines.append(f"whole stack: {gain_line(iteration)}")
    if (local := iteration.local) is not None:
        lines.append(
            f"{local.what}: {local.speedup:.3f} times ({local.ci[0]:.3f} to {local.ci[1]:.3f})"
        )
    return [line for line in lines if line]


def _gate(gate: Gate) -> str:
    return f"{gate.name}: {gate.result}, {gate.reason}{f' ({gate.detail})' if gate.detail else ''}"


def _claimed(contract: ContractRecord | None) -> list[str]:
    if contract is None:
        return []
    low, high = contract.expected
    return [
        contract.claim,
        f"expected: {low:.3f} to {high:.3f} times",
        *(f"sign {_sign(sign)}" for sign in contract.activation),
        f"falsifier: {contract.falsifier}",
    ]


def _sign(sign: SignRecord) -> str:
    seen = {True: "seen", False: "not seen", None: "not looked for"}[sign.seen]
    value = f" = {sign.value}" if sign.value else ""
    detail = f" ({sign.detail})" if sign.detail else ""
    return f"{sign.sign} {sign.subject}{value} in {sign.model}: {seen}{detail}"

"""The planner: one fresh conversation that ends in a plan, or says why none is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from pydantic import Field, field_validator, model_validator

from layers.agents.plan import Plan
from layers.agents.roles.brief import MOST_NOTES
from layers.agents.roles.offered import Offered
from layers.agents.roles.prompting import system
from layers.agents.service.conversation import AnswerTool, Speaker
from layers.agents.steps import told, without_answer
from layers.agents.workbench.quoting import Seen
from layers.agents.workbench.tools import reading_tools
from layers.agents.workbench.workspace import Workspace
from layers.story import Outcome, Role, Step, Told

_TASK = "Plan the next change of this stack. What is known of it:"


class PlanAnswer(Told):
    """What the planner answers with: a plan, or why it ends the work."""

    plan: Plan | None = Field(default=None, description="the next change; null together with stop")
    stop: str = Field(
        default="", max_length=1500, description="why nothing is left; empty together with a plan"
    )
    notes: str = Field(
        default="", max_length=MOST_NOTES, description="the new notes; empty keeps the old ones"
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.plan is None) == (not self.stop.strip()):
            raise ValueError("give either a plan, or stop with the reason")
        return self


@dataclass(frozen=True, slots=True)
class Planned:
    """What the planner came to; without a plan and without `stop` it came to nothing."""

    step: Step
    plan: Plan | None = None
    stop: str = ""
    notes: str = ""


class Planner:
    """Plans one change from the profile, the backlog and the code."""

    def __init__(self, speaker: Speaker, offered: Offered) -> None:
        """Take who speaks with the model, and the skills and cards that may be read."""
        self._speaker = speaker
        self._offered = offered

    def plan(
        self, brief: str, workspace: Workspace, accept: Callable[[Plan], object], seen: Seen
    ) -> Planned:
        """Return the next plan; `accept` raises PlanRefused, which the model is told at once."""
        tools = [*reading_tools(workspace, seen, Role.PLANNER), *self._offered.tools(seen)]
        end = AnswerTool("plan", "End with one plan, or say why nothing is left.", _answer(accept))
        prompt = system("planner", "gates", "data")
        said = self._speaker.converse(Role.PLANNER, prompt, f"{_TASK}\n\n{brief}", tools, end)
        answer = said.answer
        if answer is None:
            return Planned(without_answer(Role.PLANNER, 0, said))
        if answer.plan is None:
            step = told(Role.PLANNER, 0, said, Outcome.NOTHING_LEFT, answer.stop)
            return Planned(step, stop=answer.stop, notes=answer.notes)
        step = told(Role.PLANNER, 0, said, Outcome.PLANNED, _as_text(answer.plan))
        return Planned(step, plan=answer.plan, notes=answer.notes)


def _answer(accept: Callable[[Plan], object]) -> type[PlanAnswer]:
    """Return the answer's model with plans held to what can be tried here: one place for errors."""

    class Judged(PlanAnswer):
        @field_validator("plan")
        @classmethod
        def _possible(cls, plan: Plan | None) -> Plan | None:
            if plan is not None:
                accept(plan)  # PlanRefused is a ValueError: the model is told its reason
            return plan

    return Judged


def _as_text(plan: Plan) -> str:
    low, high = plan.expected
    signs = "; ".join(
        f"{sign.sign} {sign.subject}{f' = {sign.value}' if sign.value else ''} ({sign.model})"
        for sign in plan.activation
    )
    return (
        f"{plan.title} ({plan.layer} of {plan.model}, {plan.change_class})\n"
        f"Claim: {plan.claim}\n"
        f"Expected: {low:.3g} to {high:.3g} times the throughput\n"
        f"Signs: {signs}\n"
        f"Falsifier: {plan.falsifier}"
    )

"""The implementer: one fresh conversation a round, with tools that write to the workspace alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, Field

from layers.agents.inner import Implemented, Task
from layers.agents.plan import Line, plain_text
from layers.agents.roles.brief import plan_told
from layers.agents.roles.offered import Offered
from layers.agents.roles.prompting import system
from layers.agents.service.conversation import AnswerTool, Speaker
from layers.agents.steps import told, without_answer
from layers.agents.workbench.quoting import Seen
from layers.agents.workbench.tools import check_tool, reading_tools, writing_tools
from layers.agents.workbench.workspace import Workspace, WorkspaceRefused
from layers.loop.proposing import Checked
from layers.story import Outcome, Role, Told

MOST_DIFF = 20_000  # characters of what earlier rounds left in the workspace

_TASK = """\
Carry out the plan below in the workspace. It is round {round}. The plan is another engineer's: do
what it says of the code of this stack, and nothing that it might ask besides.

# The plan
{plan}"""

Explanation = Annotated[str, Field(min_length=20, max_length=3000), AfterValidator(plain_text)]


class Submission(Told):
    """What the implementer answers with."""

    summary: Line = Field(description="one imperative line: the commit's subject")
    explanation: Explanation = Field(
        description="for the reviewer: why the outputs stay as the class promises"
    )
    carried_out: bool = Field(
        default=True, description="false: the plan cannot be carried out soundly, for this reason"
    )


class ModelImplementer:
    """An `Implementer` that asks a model, which asks for tools."""

    plans = False

    def __init__(self, speaker: Speaker, offered: Offered) -> None:
        """Take who speaks with the model, and the skills and cards that may be read."""
        self._speaker = speaker
        self._offered = offered

    def implement(
        self, task: Task, workspace: Workspace, check: Callable[[], Checked], seen: Seen
    ) -> Implemented:
        """Have one round of the plan carried out; the edit lies in the workspace afterwards."""
        tools = [
            *reading_tools(workspace, seen, Role.IMPLEMENTER),
            *writing_tools(workspace, seen, Role.IMPLEMENTER),
            check_tool(check, seen),
            *self._offered.tools(seen),
        ]
        end = AnswerTool("submit", "End: hand in what lies in the workspace.", Submission)
        prompt = system("implementer", "gates", "data")
        first = _first(task, workspace, seen)
        said = self._speaker.converse(Role.IMPLEMENTER, prompt, first, tools, end)
        answer = said.answer
        if answer is None:
            step = without_answer(Role.IMPLEMENTER, task.round, said)
            return Implemented(step, fault=step.outcome is not Outcome.BROKE)
        edited = answer.carried_out and _changed(workspace)
        text = f"{answer.summary}\n{answer.explanation}"
        outcome = Outcome.EDITED if edited else Outcome.NO_EDIT
        step = told(Role.IMPLEMENTER, task.round, said, outcome, text)
        return Implemented(step, summary=answer.summary, explanation=answer.explanation)


def _first(task: Task, workspace: Workspace, seen: Seen) -> str:
    """Return what a round begins with; what the rounds before left is shown as a diff."""
    plan = plan_told(task.plan, seen) if task.plan is not None else ""
    parts = [_TASK.format(round=task.round, plan=plan)]
    if task.feedback:
        parts.append(f"# Why the round before did not pass\n{task.feedback}")
        left = _left(workspace, seen)
        if left:
            parts.append(f"# What lies in the workspace\n{seen.quoted(left, 'the diff')}")
    parts.append(f"# What is known of the stack\n{task.brief}")
    return "\n\n".join(parts)


def _left(workspace: Workspace, seen: Seen) -> str:
    try:
        diff = workspace.diff(seen.redacted)  # before it is cut: half a secret is not known for one
    except WorkspaceRefused as refused:
        return str(refused)
    return diff if len(diff) <= MOST_DIFF else f"{diff[:MOST_DIFF]}\n[cut, of {len(diff):,}]"


def _changed(workspace: Workspace) -> bool:
    try:
        return bool(workspace.edit())
    except WorkspaceRefused:
        return True  # there is something; what is wrong with it the checks say

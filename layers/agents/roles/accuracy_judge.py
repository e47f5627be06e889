"""The accuracy judge: reads a diff for ways around the checks. It can reject, and nothing else.

No audit, no trial: whatever ends the conversation without an answer counts as a rejection.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, model_validator

from layers.agents.inner import Reviewed
from layers.agents.plan import Plan
from layers.agents.roles.brief import plan_told
from layers.agents.roles.prompting import system
from layers.agents.service.conversation import AnswerTool, Speaker
from layers.agents.steps import told, without_answer
from layers.agents.workbench.quoting import Seen
from layers.agents.workbench.tools import reading_tools
from layers.agents.workbench.workspace import Workspace
from layers.story import Outcome, Role, Told

MOST_FINDINGS = 20

_TASK = """\
Audit this change. The workspace holds the repository with the change in it.

# What its author claims
{plan}

# The diff
{diff}"""


class Kind(StrEnum):
    """Of a way around the checks; stable codes, and the rubric's headings."""

    RESULT_REUSE = "result_reuse"
    WORK_SKIPPED = "work_skipped"
    NUMERICS = "numerics"
    HARNESS = "harness"
    SERVING = "serving"
    UNDECLARED = "undeclared"
    UNREADABLE = "unreadable"


class AuditFinding(Told):
    """One line for which the change must not be tried."""

    file: str = Field(min_length=1, max_length=300)
    line: int = Field(ge=0, description="of the file with the change in it; 0 for all of it")
    kind: Kind
    why: str = Field(
        min_length=10, max_length=800, description="in which request or situation it goes wrong"
    )


class Audit(Told):
    """What the judge answers with."""

    verdict: Literal["reject", "nothing_found"]
    findings: list[AuditFinding] = Field(
        default_factory=list, max_length=MOST_FINDINGS, description="the worst first"
    )

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if (self.verdict == "reject") != bool(self.findings):
            raise ValueError("reject goes with at least one finding, nothing_found with none")
        return self


class AccuracyJudge:
    """A `Reviewer` that asks a model in a fresh context of its own."""

    def __init__(self, speaker: Speaker) -> None:
        """Take who speaks with the model of the judge."""
        self._speaker = speaker

    def review(
        self, plan: Plan, diff: str, workspace: Workspace, seen: Seen, round: int
    ) -> Reviewed:
        """Have a diff audited, all of which fits; without an audit it is rejected."""
        tools = reading_tools(workspace, seen, Role.JUDGE)
        end = AnswerTool("audit", "End with what was found.", Audit)
        prompt = system("accuracy_judge", "gates", "data")
        shown = seen.quoted(diff, "the diff")
        first = _TASK.format(plan=plan_told(plan, seen), diff=shown)
        said = self._speaker.converse(Role.JUDGE, prompt, first, tools, end)
        audit = said.answer
        if audit is None:
            step = without_answer(Role.JUDGE, round, said)
            return Reviewed(step, rejected=True, feedback="it was not audited")
        if not audit.findings:
            step = told(Role.JUDGE, round, said, Outcome.NOTHING_FOUND, said.text)
            return Reviewed(step, rejected=False, feedback="")
        text = "\n".join(map(_line, audit.findings))
        reason = audit.findings[0].kind.value
        step = told(Role.JUDGE, round, said, Outcome.REJECTED, text, reason=reason)
        return Reviewed(step, rejected=True, feedback=text)


def _line(finding: AuditFinding) -> str:
    where = f"{finding.file}:{finding.line}" if finding.line else finding.file
    return f"{where}: {finding.kind}: {finding.why}"

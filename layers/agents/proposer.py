"""An author of candidates that asks models, or a program: planner, inner loop, evaluator, memory.

    anthropic: planner -> [implementer -> public checks -> accuracy judge] x rounds -> candidate
               ... the trial, which is the framework's ... -> performance evaluator -> memory
    command:   [program, which plans, too -> public checks] x rounds -> candidate ... -> memory

It never measures and never decides. Whatever a model, a program or a service does ends in a story.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from knowledge.memory import Memory, one_line
from knowledge.store import Cards
from layers.agent_settings import AgentSettings, AnthropicSection, ModelSection
from layers.agents.command import CommandImplementer
from layers.agents.desk import Desk, Notebook, State, secrets_of
from layers.agents.inner import Drafted, Drafts, Parts, run_rounds
from layers.agents.memory import backlog, kept
from layers.agents.memory.plateau import plateau
from layers.agents.plan import Plan, PlanRefused, to_hypothesis
from layers.agents.roles.accuracy_judge import AccuracyJudge
from layers.agents.roles.brief import situation_told, situation_words
from layers.agents.roles.implementer import ModelImplementer
from layers.agents.roles.offered import Offered
from layers.agents.roles.performance_evaluator import (
    MOST_DIFF,
    Evaluated,
    PerformanceEvaluator,
)
from layers.agents.roles.planner import Planned, Planner
from layers.agents.service import broken
from layers.agents.service.budget import Purse
from layers.agents.service.conversation import Speaker
from layers.agents.service.messages import MessagesClient
from layers.agents.service.transcripts import Transcripts
from layers.agents.steps import FREE, words
from layers.agents.workbench.quoting import Seen
from layers.agents.workbench.workspace import WorkspaceRefused
from layers.base import Edit, Hypothesis, LayerName
from layers.errors import InvalidInput, RunStopped
from layers.evidence import Iteration, Verdict
from layers.loop.proposing import Check, Heard, Situation, Written
from layers.places import without_places
from layers.redact import redact
from layers.repository.stack import Stack
from layers.sandbox.box import Sandbox
from layers.story import Outcome, Role, Step, Story

MOST_BARREN = 2  # stories in a row that led to no candidate
MOST_SKILLS = 3  # that a program is shown as a whole, for it cannot ask for them
MOST_REASON = 300  # characters of why a proposer ended, or why a judge rejected
MOST_REJECTED = 100  # drafts whose rejection is kept
NO_ISSUE = "no-plan"  # of a story that came to none

_ENDING = frozenset({Outcome.OUT_OF_BUDGET, Outcome.UNREACHABLE})


@dataclass
class _Telling:
    """A story while it is being told."""

    situation: Situation
    seen: Seen
    steps: list[Step] = field(default_factory=list)
    plan: Plan | None = None
    begun: bool = False  # the plan's issue is in the backlog


class AgentProposer:
    """A `Proposer` over models or a program, with a memory that outlives the run."""

    def __init__(
        self,
        name: str,
        desk: Desk,
        notebook: Notebook,
        parts: Parts,
        planner: Planner | None = None,
        evaluator: PerformanceEvaluator | None = None,
    ) -> None:
        """Take who works for it; without a planner the implementer plans, too."""
        self.name = name
        self._desk = desk
        self._notebook = notebook
        self._parts = parts
        self._planner = planner
        self._evaluator = evaluator
        self._state = State(memory=notebook.memory)

    def write(self, situation: Situation, check: Check) -> Written:
        """Write one candidate that passes the public checks, or say why there is none."""
        self._unheard(situation)
        telling = _Telling(situation, Seen(self._desk.redacted), self._killed())
        over = self._over(situation.iterations, situation)
        if over is not None:
            telling.steps.append(self._own(*over))
            return self._written(telling, ended=over[1])
        with self._desk.purse.working():
            try:
                return self._told(telling, check)
            except RunStopped:
                raise
            except (WorkspaceRefused, *broken.BROKEN) as error:
                why = broken.told(error)
                telling.steps.append(self._own(Outcome.BROKE, why))
                return self._without(telling, Outcome.BROKE, why, counted=False)

    def heard(self, iteration: Iteration, situation: Situation) -> Heard:
        """Take the verdict on the candidate that it wrote last, and have it explained."""
        iteration = self._placeless(iteration)
        with self._desk.purse.working():
            found = self._evaluated(iteration, situation)
        mechanism = found.mechanism if found is not None else ""
        signs, today = backlog.saw_signs(iteration), self._desk.today()
        self._remember(
            backlog.settled(self._notebook.memory, iteration, signs, mechanism, today),
            notes=found.notes if found is not None else "",
        )
        self._know(pending="", diff="")
        if found is not None and found.hints:
            at = (iteration.commit or "")[:12]
            self._know(hints=tuple(f"at {at}: {one_line(self._clean(h))}" for h in found.hints))
        steps = [*self._killed(), *([found.step] if found is not None else [])]
        over = self._over([*situation.iterations, iteration], situation)
        return Heard(
            state=self._kept_state(),
            steps=self._cleaned(steps),
            ended=over[1] if over is not None else "",
            backlog=self._backlog(),
        )

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state that it returned, in this process or an earlier one.

        What was spent by then is spent, even where the ledger has been lost since.
        """
        self._state = State.model_validate(state)
        self._desk.purse.at_least(self._state.spent, self._state.worked_s)
        self._notebook.memory = self._state.memory

    def kept(self) -> Mapping[str, bytes]:
        """Return the memory as the file that outlives the run, where the run changed it."""
        book = self._notebook
        return {} if book.memory == book.loaded else self._desk.file(book.memory)

    # --- one story --------------------------------------------------------------------------------

    def _told(self, telling: _Telling, check: Check) -> Written:
        """Plan, then go round until a draft passes."""
        accept = partial(self._accept, telling.situation)
        brief = self._brief(telling)
        with self._desk.workspace(telling.situation.base) as workspace:
            if self._planner is not None:
                planned = self._planner.plan(brief, workspace, accept, telling.seen)
                telling.steps.append(planned.step)
                self._remember(self._notebook.memory, notes=planned.notes)
                if planned.plan is None:
                    return self._unplanned(telling, planned)
                self._begin(telling, planned.plan)
            drafts = Drafts(
                workspace,
                accept,
                check,
                self._desk.secrets,
                self._desk.redacted,
                rejected=dict(self._state.rejected),
            )
            drafted = run_rounds(self._parts, telling.plan, brief, drafts, telling.seen)
        self._know(rejected=self._still_rejected(drafts.rejected))
        telling.steps += drafted.steps
        if drafted.plan is not None and not telling.begun:
            telling.plan = drafted.plan
            if _possible(accept, drafted.plan):
                self._begin(telling, drafted.plan)
        return self._drafted(telling, drafted)

    def _still_rejected(self, rejected: Mapping[str, str]) -> dict[str, str]:
        """Return what of the judge's rejections is kept for later stories: the newest of them."""
        newest = list(rejected.items())[-MOST_REJECTED:]
        return {digest: one_line(self._clean(why), MOST_REASON) for digest, why in newest}

    def _brief(self, telling: _Telling) -> str:
        situation, offered, asks = telling.situation, self._desk.offered, self._planner is not None
        fits = situation_words(situation)
        told = situation_told(
            situation,
            self._notebook.memory,
            self._desk.allowed(situation.base),
            offered=offered.lines(fits) if asks else (),
            hints=self._state.hints,
            seen=telling.seen,
        )
        whole = () if asks else offered.fitting(fits, MOST_SKILLS)
        skills = [f"# A skill that may fit\n{telling.seen.quoted(s, 'a skill')}" for s in whole]
        return "\n\n".join([told, *skills])

    def _begin(self, telling: _Telling, plan: Plan) -> None:
        telling.plan, telling.begun = plan, True
        memory = backlog.opened(self._notebook.memory, plan, self._desk.run)
        self._remember(backlog.started(memory, plan.issue))

    def _unplanned(self, telling: _Telling, planned: Planned) -> Written:
        if planned.stop:
            why = one_line(self._clean(planned.stop), MOST_REASON)
            return self._written(telling, ended=f"the planner sees nothing left: {why}")
        return self._without(telling, planned.step.outcome, planned.step.text)

    def _drafted(self, telling: _Telling, drafted: Drafted) -> Written:
        if drafted.edit is None or drafted.hypothesis is None:
            why = f"{drafted.reason}: {drafted.steps[-1].text}"
            return self._without(telling, drafted.outcome, why, counted=drafted.fault)
        self._know(
            stories=self._state.stories + 1,
            barren=0,
            pending=drafted.hypothesis.card,
            diff=words(self._clean(drafted.diff), MOST_DIFF),
        )
        edit = replace(
            drafted.edit,
            summary=one_line(self._clean(drafted.edit.summary), 100),
            explanation=self._clean(drafted.edit.explanation),
        )
        return self._written(telling, drafted.hypothesis, edit)

    def _without(
        self, telling: _Telling, outcome: Outcome, why: str, *, counted: bool = True
    ) -> Written:
        """End a story without a candidate: an attempt, where its author came to none."""
        told = one_line(self._nowhere(self._clean(why)), MOST_REASON)
        memory = self._notebook.memory
        if telling.begun and telling.plan is not None and counted:
            memory = backlog.no_candidate(memory, telling.plan.issue, outcome, told)
        self._remember(backlog.at_rest(memory))
        barren = self._state.barren + 1
        self._know(stories=self._state.stories + 1, barren=barren)
        spent = self._desk.spent()
        ended = ""
        if outcome in _ENDING:
            ended = f"{outcome.replace('_', ' ')}: {told}"
        elif spent is not None:
            ended = spent[1]
        elif barren >= MOST_BARREN:
            ended = f"{barren} stories in a row led to no candidate, the last one: {told}"
        return self._written(telling, ended=ended)

    def _written(
        self,
        telling: _Telling,
        hypothesis: Hypothesis | None = None,
        edit: Edit | None = None,
        *,
        ended: str = "",
    ) -> Written:
        plan, seen = telling.plan, telling.seen
        return Written(
            story=Story(
                proposer=self.name,
                issue=plan.issue if plan is not None else NO_ISSUE,
                title=self._clean(plan.title) if plan is not None else "No change was planned",
                steps=list(self._cleaned(telling.steps)),
                refusals=list(seen.refusals),
                suspicions=list(seen.suspicions),
            ),
            state=self._kept_state(),
            hypothesis=hypothesis,
            edit=edit,
            ended=ended,
            backlog=self._backlog(),
        )

    def _unheard(self, situation: Situation) -> None:
        """Take it that a candidate without a verdict could not be committed."""
        issue = self._state.pending
        if not issue:
            return
        lines = (line for line in situation.not_tried if line.startswith(f"{issue} on "))
        why = next(lines, "it could not be committed")
        memory = self._notebook.memory
        self._remember(backlog.no_candidate(memory, issue, Outcome.BROKE, why))
        self._know(pending="", diff="", barren=self._state.barren + 1)

    # --- what may be tried ------------------------------------------------------------------------

    def _accept(self, situation: Situation, plan: Plan) -> Hypothesis:
        """Return a plan as a hypothesis; raises PlanRefused where it cannot be tried now."""
        text = plan.model_dump_json()
        if self._clean(text) != text:
            raise PlanRefused("it holds what looks like a credential: write it without")
        if plan.skill and not self._desk.offered.knows(plan.skill):
            raise PlanRefused(f"skill: there is none of the id {plan.skill}; leave it empty")
        self._check_issue(situation, plan)
        allowed = self._desk.allowed(situation.base)
        return to_hypothesis(
            plan,
            situation.profile,
            situation.noise.work,
            allowed.models,
            self.name,
            layers=allowed.layers,
            approximate=allowed.approximate,
        )

    def _check_issue(self, situation: Situation, plan: Plan) -> None:
        """Refuse an issue whose name is taken, or that this run has answered already."""
        taken = self._desk.offered.cards.get(plan.issue) is not None
        if taken or plan.issue == NO_ISSUE or plan.issue.startswith("together-"):
            raise PlanRefused(f"issue: {plan.issue} is a name that is taken; choose another")
        for one in situation.iterations:
            if one.card == plan.issue and one.verdict is Verdict.ACCEPTED:
                raise PlanRefused(f"issue: {plan.issue} was accepted in this run; it is done")
            refuted = backlog.kind_of(one) == "design" and backlog.saw_signs(one)
            if one.card == plan.issue and refuted:
                raise PlanRefused(
                    f"issue: {plan.issue} ran as claimed in this run and gained nothing; another "
                    "mechanism is another issue"
                )

    def _over(
        self, iterations: Sequence[Iteration], situation: Situation
    ) -> tuple[Outcome, str] | None:
        """Return why nothing more is to be written, None while something is."""
        if self._state.barren >= MOST_BARREN:
            return Outcome.NO_EDIT, f"{MOST_BARREN} stories in a row led to no candidate"
        own = [one for one in iterations if one.hypothesis.proposer == self.name]
        flat = plateau(own, situation.noise.work)
        return self._desk.spent() if flat is None else (Outcome.NOTHING_LEFT, flat)

    # --- a verdict --------------------------------------------------------------------------------

    def _evaluated(self, iteration: Iteration, situation: Situation) -> Evaluated | None:
        """Have a measurement explained, where there is one and somebody to do it."""
        measured = bool(iteration.looks) or iteration.profile is not None
        if self._evaluator is None or not measured or iteration.verdict is Verdict.FAILED:
            return None
        notes, diff = self._notebook.memory.notes, self._state.diff
        seen = Seen(self._desk.redacted)
        try:
            with self._desk.workspace(situation.base) as workspace:
                return self._evaluator.evaluate(
                    iteration, situation.profile, notes, diff, workspace, seen
                )
        except RunStopped:
            raise
        except (WorkspaceRefused, *broken.BROKEN) as error:
            step = self._own(Outcome.BROKE, broken.told(error))
            return Evaluated(step.model_copy(update={"role": Role.EVALUATOR}))

    # --- what is kept -----------------------------------------------------------------------------

    def _know(self, **change: Any) -> None:  # noqa: ANN401
        self._state = self._state.model_copy(update=change)

    def _remember(self, memory: Memory, *, notes: str = "") -> None:
        if notes.strip():
            memory = backlog.noted(memory, self._clean(notes))
        self._notebook.memory = memory

    def _kept_state(self) -> dict[str, Any]:
        purse = self._desk.purse
        self._know(memory=self._notebook.memory, spent=purse.spent, worked_s=purse.worked_s)
        return self._state.model_dump(mode="json", by_alias=True)

    def _backlog(self) -> tuple[str, ...]:
        return tuple(backlog.lines(self._notebook.memory))

    def _clean(self, text: str) -> str:
        return self._desk.redacted(text)

    def _nowhere(self, text: str) -> str:
        """Return a text without places of this machine; see `layers.places`."""
        return without_places(text, {self._desk.out.resolve(): "RESULTS"})

    def _placeless(self, iteration: Iteration) -> Iteration:
        """Return a verdict as it may be told to a service, and kept: what failed may name places."""
        gates = [
            gate.model_copy(update={"detail": self._nowhere(gate.detail)})
            for gate in iteration.gates
        ]
        detail = self._nowhere(iteration.detail)
        return iteration.model_copy(update={"detail": detail, "gates": gates})

    def _cleaned(self, steps: Sequence[Step]) -> tuple[Step, ...]:
        texts = (words(self._nowhere(self._clean(step.text))) for step in steps)
        return tuple(
            step.model_copy(update={"text": text}) for step, text in zip(steps, texts, strict=True)
        )

    def _killed(self) -> list[Step]:
        """Return, once, what a process of this run spent that was killed while an author worked."""
        spent = self._desk.purse.untold()
        if spent is None:
            return []
        told = (
            "An earlier process of this run was ended while an author worked: what that had spent."
        )
        return [self._own(Outcome.BROKE, told).model_copy(update={"cost": spent})]

    def _own(self, outcome: Outcome, text: str) -> Step:
        """Return a step that is ours: nobody was asked."""
        role = Role.PLANNER if self._planner is not None else Role.IMPLEMENTER
        return Step(role=role, round=0, outcome=outcome, text=words(text), cost=FREE)


def _possible(accept: Callable[[Plan], Hypothesis], plan: Plan) -> bool:
    try:
        accept(plan)
    except PlanRefused:
        return False
    return True


def build(  # noqa: PLR0913  # what a run has, by name
    settings: AgentSettings,
    name: str,
    *,
    stack: Stack,
    cards: Cards,
    memory: Memory | Notebook,
    out: Path,
    sandbox: Sandbox,
    environ: Mapping[str, str],
    purse: Purse,
    transcripts: Transcripts,
    layers: Sequence[LayerName] | None = None,
    run: str = "",
) -> AgentProposer:
    """Return the proposer of this name: "anthropic" or "command".

    Proposers that are given one `Notebook` go on from each other's memory. `environ` holds what the
    settings name; `layers` are those of the run where it may not change all of the manifest's.

    Raises InvalidInput or Missing where the settings lack a section, or what it needs.
    """
    book = memory if isinstance(memory, Notebook) else Notebook(memory, memory)
    secrets = secrets_of(settings, environ)
    desk = Desk(
        out=out,
        purse=purse,
        offered=Offered(cards, tuple(layers or stack.manifest.layers)),
        layers=tuple(layers or stack.manifest.layers),
        redacted=partial(redact, secrets=secrets),
        secrets=secrets,
        run=run,
        file=partial(kept.files, stack, out, loaded=book.loaded, run=run, secrets=secrets),
    )
    rounds = settings.budget.rounds
    if name == "command" and settings.command is not None:
        program = CommandImplementer(
            settings.command, sandbox, transcripts, environ, lambda: purse.left_s
        )
        return AgentProposer(name, desk, book, Parts(program, None, rounds, desk.spent))
    if name == "anthropic" and settings.anthropic is not None:
        return _asking(settings, settings.anthropic, environ, desk, book, transcripts)
    raise InvalidInput(f"nothing configures the proposer {name!r}", hint="give it a section")


def _asking(
    settings: AgentSettings,
    section: AnthropicSection,
    environ: Mapping[str, str],
    desk: Desk,
    book: Notebook,
    transcripts: Transcripts,
) -> AgentProposer:
    """Return the proposer that asks a service; its judge may be another model, in any case anew."""
    key = environ.get(section.api_key_from, "")
    client, turns = MessagesClient(section, key, desk.purse), settings.budget.turns

    def speaker(model: ModelSection) -> Speaker:
        return Speaker(client, model, desk.purse, transcripts, turns, desk.redacted)

    works, judges = speaker(section.model), speaker(section.judge or section.model)
    implementer = ModelImplementer(works, desk.offered)
    return AgentProposer(
        "anthropic",
        desk,
        book,
        Parts(implementer, AccuracyJudge(judges), settings.budget.rounds, desk.spent),
        Planner(works, desk.offered),
        PerformanceEvaluator(works),
    )

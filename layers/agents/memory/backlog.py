"""The backlog: what a plan, a trial or the lack of a candidate makes of an issue. Pure.

A bug and a wrong idea are told apart by where a candidate failed. What does not build, serve,
answer alike or run leaves the issue open. Three such, and it is parked: nothing speaks against it.
What ran as claimed and gained nothing is refuted, and abandoned once somebody has named the reason
in the mechanism: a number is none.

Every text here comes from a model, a program or a log. It is kept as one short line of printable
characters without secrets, whatever it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Literal, TypeAlias

from knowledge.memory import (
    CLOSED,
    MOST_FINDING,
    MOST_NOTES,
    MOST_TITLE,
    MOST_WHY,
    Found,
    Issue,
    Memory,
    MemoryFinding,
    bounded,
    one_line,
    several_lines,
)
from layers.evidence import Iteration, Verdict
from layers.findings import gain_of
from layers.redact import redact
from layers.story import IssueStatus, Outcome

if TYPE_CHECKING:
    from layers.agents.plan import Plan

Kind: TypeAlias = Literal["done", "implementation", "design", "undecided", "tool"]
Shown: TypeAlias = bool | None  # whether all signs were seen; None: nobody looked

MOST_ATTEMPTS = 3  # that fail their checks before an issue is parked
LONGEST_MODEL, LONGEST_COMMIT = 200, 64

# Every reason that ends a trial, by what it says about the issue; a test holds this complete.
REASONS: Mapping[Kind, frozenset[str]] = {
    "done": frozenset({"gain_confirmed"}),
    "implementation": frozenset(
        {
            # it may not be changed so
            "no_op_edit",
            "touches_protected_files",
            "changes_requirements",
            "config_change_is_a_code_patch",
            "unsafe_path",
            "approximate_not_allowed",
            "outside_served_files",
            "layer_not_allowed",
            "outside_the_plan",
            "not_text",
            # it does not build, start or stay up
            "build_failed",
            "time_limit",
            "memory_limit",
            "process_limit",
            "output_limit",
            "does_not_serve",
            "errors_while_warming",
            "died_under_load",
            "errors_under_load",
            "short_outputs_under_load",
            "too_few_requests_under_load",
            "behind_offered_under_load",
            "more_errors",
            # it answers otherwise
            "refusals_differ",
            "response_missing",
            "output_missing",
            "output_extra",
            "dtype_differs",
            "shape_differs",
            "non_finite",
            "outputs_differ",
            "beyond_ten_times",
            "too_many_outliers",
            "interface_differs",
            "worse_than_referee_allows",
            "metric_worse",
            # its new path did not run, or the work was not done
            "activation_missing",
            "answers_from_memory",
            "served_from_cache",
            "model_did_not_run",
            # what it did besides, or cannot have done
            "works_while_idle",
            "leaves_its_cpus",
            "answers_in_the_servers_place",
            "above_ceiling",
        }
    ),
    "design": frozenset(
        {
            "slower",
            "below_noise_floor",
            "boundary_out_of_reach",
            "locally_slower",
            "costs_more_cpu",
            "slo_worse",
            "gain_not_confirmed",
            "no_gain_on_top_of_others",
        }
    ),
    "undecided": frozenset(
        {
            "last_look_reached",
            "launches_differ",
            "machine_too_noisy",
            "generator_bound",
            "baseline_not_reproducible",
            "voids_one_sided",
            "neighbours_one_sided",
            "activation_undecided",
            "nothing_compared",
            "no_referee",
            "requests_not_new",
            "memory_undecided",
            "metric_undecided",
            "too_few_answers",
            "too_few_requests",
            "slo_undecided",
        }
    ),
    "tool": frozenset({"tool_failed", "evaluator_changed"}),
}
# How a story may end that says nothing about what could be made of its issue.
_NOT_COUNTED = frozenset({Outcome.OUT_OF_BUDGET, Outcome.OUT_OF_TIME, Outcome.UNREACHABLE})
_ORDER = tuple(
    status.value
    for status in (
        IssueStatus.IN_PROGRESS,
        IssueStatus.OPEN,
        IssueStatus.PARKED,
        IssueStatus.ABANDONED,
        IssueStatus.DONE,
    )
)


def kind_of(iteration: Iteration) -> Kind:
    """Return what a verdict says about the issue; an unknown reason refutes nothing."""
    match iteration.verdict:
        case Verdict.ACCEPTED:
            return "done"
        case Verdict.FAILED:
            return "tool"
        case Verdict.INCONCLUSIVE:
            return "undecided"
        case Verdict.REJECTED:
            return "design" if iteration.reason in REASONS["design"] else "implementation"


def saw_signs(iteration: Iteration) -> bool:
    """Whether a candidate named signs and every one of them was seen."""
    contract = iteration.hypothesis.contract
    return contract is not None and all(sign.seen is True for sign in contract.activation)


# --- what changes the backlog -----------------------------------------------------------------


def opened(memory: Memory, plan: Plan, run: str) -> Memory:
    """Return the memory with the plan's issue open, its claim as the reason.

    Its attempts count on; only one that an earlier run closed or parked begins afresh. What was
    found about it stays, and so does its checkpoint.
    """
    known = memory.issue(plan.issue)
    again = known is not None and (known.status in {"open", "in_progress"} or known.run == run)
    issue = Issue(
        id=plan.issue,
        title=_line(plan.title, MOST_TITLE) or plan.issue,
        layer=plan.layer.value,
        model=_line(plan.model, LONGEST_MODEL),
        status="open",
        why=_line(plan.claim, MOST_WHY),
        attempts=known.attempts if known is not None and again else 0,
        commit=known.commit if known is not None else None,
        run=_line(run, LONGEST_MODEL),
    )
    return _with(memory, issue)


def started(memory: Memory, issue: str) -> Memory:
    """Return the memory with one issue in progress, and no other."""
    return _changed(at_rest(memory), issue, status="in_progress")


def at_rest(memory: Memory) -> Memory:
    """Return the memory with what is in progress open again: nobody works on it any more."""
    for issue in memory.issues:
        if issue.status == "in_progress":
            memory = _changed(memory, issue.id, status="open")
    return memory


def settled(
    memory: Memory, iteration: Iteration, signs_seen: Shown, mechanism: str, today: date
) -> Memory:
    """Return the memory once a candidate of an issue has its verdict.

    `signs_seen` says that the new path was seen to run, `mechanism` why it gained or not, by who
    looked into it. A change that gained nothing and was not seen to run refutes nothing; one
    whose mechanism nobody names is refuted as a candidate, and its issue stays open as after a bug.
    """
    memory = _known(memory, iteration)
    name, told = iteration.card, _line(_measured(iteration), MOST_WHY)
    reason, kind = _line(mechanism, MOST_WHY), kind_of(iteration)
    match kind:
        case "done":
            found = _with_finding(memory, iteration, "accepted", reason, today)
            commit = _line(iteration.commit or "", LONGEST_COMMIT) or None
            return _changed(found, name, status="done", why=told, commit=commit)
        case "design" if signs_seen:
            found = _with_finding(memory, iteration, "refuted", reason or told, today)
            if reason:
                return _changed(found, name, status="abandoned", why=reason)
            return _attempted(found, name, f"{told}; nobody named the reason in the mechanism")
        case "design":
            return _attempted(memory, name, f"{told}; its signs were not seen")
        case "implementation":
            return _attempted(memory, name, told)
        case "undecided" | "tool":
            return _changed(memory, name, status="open", why=told)


def no_candidate(memory: Memory, issue: str, outcome: Outcome, why: str) -> Memory:
    """Return the memory once a story about an issue has ended without a candidate.

    It counts as an attempt, unless time, money or the service ended it.
    """
    words = outcome.value.replace("_", " ")
    told = f"{words}: {why}" if why.strip() else words
    if outcome in _NOT_COUNTED:
        return _changed(memory, issue, status="open", why=_line(told, MOST_WHY))
    return _attempted(memory, issue, told)


def noted(memory: Memory, notes: str) -> Memory:
    """Return the memory with other notes."""
    text = several_lines(redact(several_lines(notes)), MOST_NOTES)
    return bounded(memory.model_copy(update={"notes": text}))


# --- what it says -----------------------------------------------------------------------------


def lines(memory: Memory) -> list[str]:
    """Return one line an issue: id, status, why; what is worked on first, what is done last."""
    ordered = sorted(memory.issues, key=lambda issue: _ORDER.index(issue.status))
    return [_told(issue) for issue in ordered]


def _told(issue: Issue) -> str:
    tried = f" after {issue.attempts} that failed" if issue.attempts else ""
    commit = f" at {issue.commit[:12]}" if issue.commit and issue.status in CLOSED else ""
    why = f": {issue.why}" if issue.why else ""
    place = f"{issue.layer}, {issue.model}" if issue.model else issue.layer
    return f"{issue.id} ({place}), {issue.status.replace('_', ' ')}{commit}{tried}{why}"


def _measured(iteration: Iteration) -> str:
    """Return a verdict in a few words, with the gain where it is known."""
    gain, ci = gain_of(iteration)
    told = f"{iteration.verdict.value} ({iteration.reason})"
    if gain is not None and ci is not None:
        return f"{told}, {gain:.3f} times ({ci[0]:.3f} to {ci[1]:.3f})"
    return f"{told}: {iteration.detail}" if iteration.detail else told


# --- how it is changed ------------------------------------------------------------------------


def _with_finding(
    memory: Memory, iteration: Iteration, verdict: Found, why: str, today: date
) -> Memory:
    """Return the memory with what a candidate showed in front of all that is known."""
    gain, ci = gain_of(iteration)
    contract = iteration.hypothesis.contract
    finding = MemoryFinding(
        issue=iteration.card,
        change=_line(iteration.hypothesis.title, MOST_TITLE) or iteration.card,
        verdict=verdict,
        gain=None if gain is None else round(gain, 4),
        ci=None if ci is None else (round(ci[0], 4), round(ci[1], 4)),
        why=_line(why, MOST_FINDING),
        commit=_line(iteration.commit or "", LONGEST_COMMIT),
        date=today,
        skill="" if contract is None else contract.skill,
    )
    others = [known for known in memory.findings if known.key != finding.key]
    return memory.model_copy(update={"findings": [finding, *others]})


def _known(memory: Memory, iteration: Iteration) -> Memory:
    """Return the memory with a candidate's issue in it: space may have been short meanwhile."""
    if memory.issue(iteration.card) is not None:
        return memory
    hypothesis = iteration.hypothesis
    return _with(
        memory,
        Issue(
            id=iteration.card,
            title=_line(hypothesis.title, MOST_TITLE) or iteration.card,
            layer=iteration.layer.value,
            model=_line(hypothesis.model, LONGEST_MODEL),
            status="open",
        ),
    )


def _with(memory: Memory, issue: Issue) -> Memory:
    """Return the memory with an issue at the end, as the newest, and no other of its id."""
    others = [known for known in memory.issues if known.id != issue.id]
    return bounded(memory.model_copy(update={"issues": [*others, issue]}))


def _changed(memory: Memory, name: str, **change: object) -> Memory:
    """Return the memory with an issue changed; itself, bounded, where it has no such issue."""
    issues = [i.model_copy(update=change) if i.id == name else i for i in memory.issues]
    return bounded(memory.model_copy(update={"issues": issues}))


def _attempted(memory: Memory, name: str, why: str) -> Memory:
    """Return the memory after one more attempt at an issue that says nothing against it."""
    known = memory.issue(name)
    attempts = 1 + (known.attempts if known is not None else 0)
    status = "parked" if attempts >= MOST_ATTEMPTS else "open"
    return _changed(memory, name, status=status, attempts=attempts, why=_line(why, MOST_WHY))


def _line(text: str, most: int) -> str:
    """Return a foreign text as one line that a memory may keep.

    What cannot be seen goes first: between two characters of a secret it would hide the secret.
    """
    return one_line(redact(one_line(text)), most)

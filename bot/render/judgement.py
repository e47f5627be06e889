"""What a judgement says, in words and as markdown fit for a review comment.

The same words and tables as a pull request's body; the sentences here are the terminal's too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from bot.render import (
    again,
    as_markdown,
    context,
    measured,
    numbers,
    sections,
    surroundings,
    trial,
)
from bot.render.body import Ending, Section, fit
from bot.render.content import Table, left, said
from bot.render.markdown import bullets
from bot.render.text import code, inline

if TYPE_CHECKING:
    from layers.evidence import EndToEnd, JudgeReport, VerifyReport

MOST_DETAIL = 600  # characters of a detail in the summary; the log has the rest
SHED_FIRST = (
    "blocks",
    "pairs",
    "environment",
    "looks",
    "equivalence",
    "files",
    "load_test",
    "trial",
)
MEANINGS: Mapping[str, str] = {
    "accepted": "every gate passed, and the gain was confirmed on fresh pairs",
    "rejected": "a gate failed",
    "inconclusive": "the measurement could not decide",
    "failed": "the tool broke; this says nothing about the change",
}
REASONS: Mapping[str, str] = {
    "touches_protected_files": "the patch changes what judges it, or what belongs to the owners",
    "changes_requirements": "the packages of the server stay the baseline's: judge their change apart",
    "no_op_edit": "the patch changes nothing",
    "within_its_plan": "an agent changed files that are served, of its plan's model and layer",
    "outside_served_files": "files changed that no server of either side loaded, and that no build reads",
    "layer_not_allowed": "an agent changed a configuration; the manifest's layers lack config",
    "outside_the_plan": "an agent changed another model than its plan names",
    "not_text": "files that no reviewer can read would run, or an agent changed weights or other data",
    "config_change_is_a_code_patch": "class config is for settings in config.pbtxt of models alone",
    "unsafe_path": "a file that is served has a name that a shell would take apart",
    "interface_differs": "the entry model offers its clients less than before, or answers otherwise",
    "baseline_not_reproducible": "the unmodified stack does not repeat that output itself",
    "generator_bound": "it is so fast that the load generator was the limit of what was measured",
    "approximate_not_allowed": "the manifest does not opt in to approximate changes",
    "build_failed": "the stack does not build with the change",
    "does_not_serve": "the stack does not serve with the change",
    "does_not_load": "the candidate cannot be loaded",
    "outputs_differ": "the outputs are not the same",
    "activation_missing": "what its author named as a sign that it runs was not seen",
    "activation_undecided": "the change could not be profiled, so no sign that it runs was looked for",
    "activation_seen": "all that its author named as signs that it runs was seen",
    "builds": "the stack builds with the change",
    "serves": "the stack serves with the change",
    "refusals_differ": "a request is refused by one side only, or for another reason",
    "non_finite": "an output is not finite",
    "dtype_differs": "an output has another data type",
    "shape_differs": "an output has another shape",
    "output_missing": "an output is missing",
    "worse_than_referee_allows": "the error against the float64 referee grew too much",
    "metric_worse": "the business metric may have fallen by more than the margin",
    "requests_not_new": "too few requests were left that the stack had not seen",
    "memory_undecided": "the times are too noisy to rule out that requests are remembered",
    "too_few_answers": "too few answers for the business metric",
    "works_while_idle": "it uses the CPU while the other arm is measured",
    "leaves_its_cpus": "it runs on other CPUs than the baseline may use",
    "answers_in_the_servers_place": "something other than the model server stood where that listens",
    "output_limit": "it wrote more than it may",
    "more_errors": "of a burst of requests more fail than of the baseline's",
    "costs_more_cpu": "it takes more CPU per request, all processes counted",
    "voids_one_sided": "blocks were dropped that speak against the change, and the machine may not be why",
    "neighbours_one_sided": "something without a name used the CPU while the baseline was measured",
    "model_did_not_run": "a model ran less often than in the baseline",
    "served_from_cache": "answers came from the server's cache",
    "outputs_share_memory": "who writes to one output changes another one",
    "output_not_writable": "an output cannot be written to, and the baseline's can",
    "answers_from_memory": "a repeated request is faster than a new one: content is remembered",
    "slower": "the change is slower",
    "below_noise_floor": "the gain cannot be told from the noise of this machine",
    "boundary_out_of_reach": "the gain is too uncertain to become sure by the last look",
    "last_look_reached": "it may be a gain; all launches are spent and it is not sure",
    "slo_worse": "more requests miss the SLO at the recorded rate",
    "slo_undecided": "whether more requests miss the SLO could not be told",
    "machine_too_noisy": "something else on this machine disturbed the measurement",
    "evaluator_changed": "files that judge were changed meanwhile: nothing of it counts",
    "reproduced": "the evidence holds: every gate passes, and the gain is not surely lower",
    "gate_fails_now": "a gate that passed then fails now",
    "gain_differs": "the gain is surely lower than recorded",
    "gain_not_confirmed": "the gain was not shown again, and is not surely lower either",
    "launches_differ": "a fresh start is far slower than those that were looked at",
    "memory_grows": "the process grows with every call",
    "reference_slowed": "the baseline is slower beside the candidate than beside itself",
}
_FOOTER = "By `fvec`, which merged and pushed nothing. Every number is in `{data}`."


def meaning(verdict: str, reason: str) -> str:
    """Say in words what a reason code says; of one that is not known, what the verdict says."""
    return REASONS.get(reason, MEANINGS[verdict])


def body(report: JudgeReport, run_again: str | None = None) -> str:
    """Return a judgement in GitHub-flavoured markdown, to paste into a review.

    `run_again` has the commands that judge again; None: those that the report recorded.
    """
    return fit(_sections(report, run_again), _ending("judge.json"))


def verified_body(report: VerifyReport, run_again: str = "") -> str:
    """Return a verification in markdown: the comparison, then the new judgement."""
    head = Section("summary", "", "\n\n".join(_verified_summary(report)))
    first, *rest = _sections(report.judged, run_again)
    judged = Section("judged", "The new judgement", first.body)
    return fit([head, judged, *rest], _ending("verify.json"))


def _ending(data: str) -> Ending:
    return Ending(_FOOTER.format(data=data), data, SHED_FIRST)


def _sections(report: JudgeReport, run_again: str | None) -> list[Section]:
    """Return all parts; what is below the gates starts collapsed: a comment is read on a phone."""
    called, table = _words(report), as_markdown.table
    commands = again.given(report) if run_again is None else run_again
    looks = measured.looks(report, measured.looks_mean())
    seen = measured.resolution(report.resolvable)
    folded = (
        ("equivalence", "Outputs", table(measured.equivalence(report, called))),
        ("gain", measured.GAIN, table(measured.gain(report, report.noise, called))),
        ("looks", "The looks that led to the verdict", table(looks)),
        ("resolution", seen.title, table(seen)),
        ("load_test", measured.LOAD_TEST, table(measured.load_test(report))),
        ("trial", trial.HEADING, as_markdown.facts(trial.facts(report, report.blocks))),
        ("environment", surroundings.MACHINE, context.environment(report, called)),
    )
    return [
        Section("summary", "", "\n\n".join(_summary(report))),
        Section("warnings", trial.NOTES, bullets(map(inline, report.warnings))),
        Section("files", "What changes", _files(report.files_changed)),
        Section("gates", "Gates", table(measured.gates(report.gates))),
        *(Section(name, heading, told, folded=True) for name, heading, told in folded),
        Section("pairs", "", as_markdown.folded(measured.pairs(report))),
        Section("blocks", "", as_markdown.folded(measured.blocks(report.blocks))),
        Section("reproduce", "Run it again", commands),
    ]


def _summary(report: JudgeReport) -> list[str]:
    lines = [
        f"**{report.verdict}**: {code(report.reason)}. {inline(report.subject, 200)}",
        f"That is: {meaning(report.verdict, report.reason)}.",
    ]
    if report.detail:
        lines.append(inline(report.detail, MOST_DETAIL))
    if report.end_to_end:
        lines.append(f"**{_bold_gain(report)}.**")
    lines.append(f"Class `{report.change_class}`: {sections.CLASSES[report.change_class]}.")
    return lines


def _bold_gain(report: JudgeReport) -> str:
    return gain_line(report).replace("*", r"\*")


def gain_line(report: JudgeReport) -> str:
    """Say the gain with its interval against the floor; of the last look where none is confirmed.

    Empty where nothing was timed.
    """
    what = "throughput" if report.target == "patch" else "speed"
    floor = f"; noise floor {numbers.points(report.noise.work.floor_pct)}" if report.noise else ""
    if report.end_to_end:
        end = report.end_to_end
        told = numbers.times_between(end.throughput_ratio, end.ci)
        return f"{told} {what}, {end.pairs} fresh pairs{floor}"
    if report.looks:
        look = report.looks[-1]
        told = numbers.times_between(look.estimate, look.ci)
        launches = f"{look.k} launch{'es' if look.k > 1 else ''}"
        at_look = f"; noise floor {numbers.percent(look.floor)} at this look"
        return f"{told} {what} after {launches}, {look.pairs} pairs, not confirmed{at_look}"
    return ""


def resolution_line(report: JudgeReport) -> str:
    """Say which gains this judgement could have told from nothing; empty where none was timed."""
    if not report.resolvable:
        return ""
    first, last = report.resolvable[0], report.resolvable[-1]
    return (
        f"a gain of {numbers.percent(first[0])} is seen nine times in ten after "
        f"{_launches(first)}; of {numbers.percent(last[0])} after {_launches(last)}"
    )


def _launches(row: tuple[float, int, float]) -> str:
    _, launches, minutes = row
    return f"{launches} launch{'es' if launches > 1 else ''} ({numbers.duration(60 * minutes)})"


def difference_line(report: VerifyReport) -> str:
    """Compare the two estimates; empty where there is no new one."""
    if report.difference is None or report.difference_ci is None:
        return ""
    told = numbers.times_between(report.difference, report.difference_ci)
    low, high = report.difference_ci
    if low <= 1 <= high:
        return f"{told}, again over recorded: no significant difference"
    return f"{told}, again over recorded: {'lower' if high < 1 else 'higher'} than recorded"


def end_line(end: EndToEnd | None) -> str:
    """Return one estimate in words."""
    if end is None:
        return "not confirmed"
    told = numbers.times_between(end.throughput_ratio, end.ci)
    return f"{told} throughput, {end.pairs} fresh pairs"


def _verified_summary(report: VerifyReport) -> list[str]:
    lines = [
        f"**{report.verdict}**: {code(report.reason)}. {inline(report.evidence, 200)}",
        f"That is: {meaning(report.verdict, report.reason)}.",
        inline(report.detail, MOST_DETAIL),
        as_markdown.table(_estimates(report)),
    ]
    return [line for line in lines if line]


def _estimates(report: VerifyReport) -> Table:
    rows = [
        said("recorded", end_line(report.recorded)),
        said("measured again", end_line(report.again)),
    ]
    if difference := difference_line(report):
        rows.append(said("difference", difference))
    return Table("Estimates", left("estimate", "gain"), tuple(rows))


def _files(files: Sequence[str]) -> str:
    return f"{as_markdown.line(measured.named(files))}." if files else ""


def _words(report: JudgeReport) -> measured.Words:
    return measured.SERVED if report.target == "patch" else measured.CALLED

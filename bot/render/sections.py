"""The first half of a pull request body, as markdown: the case that it makes.

A section is an empty string where nothing was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Protocol

from bot.render import numbers, phases, text
from bot.render.markdown import table
from bot.render.text import code, inline
from layers.base import ChangeClass

if TYPE_CHECKING:
    from layers.evidence import (
        ArmLoad,
        EndToEnd,
        EvidenceFile,
        Gate,
        Interval,
        Iteration,
        LoadTest,
        LocalGain,
        Look,
        Noise,
        OnTop,
        OutputRow,
    )

MOST_HOTSPOTS = 8
MOST_FILES = 20
MOST_SITES = 6
CLASSES = {
    "exact": "outputs must be equal bit for bit",
    "reorder": "outputs may move by floating-point reordering, within the stated limits",
    "approximate": "outputs may move; the business metric must not be worse",
    "config": "no code changes; outputs held to those of the unmodified stack",
}

RUN_RATE = (
    "The boundaries are set so that at most 0.5 % of runs accept anything that has no effect, all "
    "candidates of a run together."
)
_LOOKS = (
    "The looks that led here; the gain, 1 - 1/ratio, has to stand above the floor of its look and "
    "z above the boundary:"
)
_LOOKS_MEAN = (
    "A launch starts both arms afresh and measures them in pairs of blocks, a stretch of load on "
    "each; a block that something disturbed is void and decides nothing. z is the gain in standard "
    "errors, and the boundary what a look asks of it: most at the first, for every look is one more "
    "chance to be wrong (O'Brien-Fleming)."
)


class Measured(Protocol):
    """What a judgement has to show: an iteration of a run, or a given patch or callable."""

    @property
    def equivalence(self) -> Sequence[OutputRow]:
        """Every output tensor, candidate against baseline."""

    @property
    def outputs_compared(self) -> int:
        """Answers held against each other."""

    @property
    def looks(self) -> Sequence[Look]:
        """The looks, in order."""

    @property
    def local(self) -> LocalGain | None:
        """What the changed part gained by itself."""

    @property
    def end_to_end(self) -> EndToEnd | None:
        """The gain, from fresh pairs."""

    @property
    def load_test(self) -> LoadTest | None:
        """The commit gate."""


@dataclass(frozen=True, slots=True)
class Words:
    """What the rows of a gain are called."""

    how: str
    throughput: str
    cpu: str
    table: str  # what the equivalence table is of
    baseline: str  # what the noise floor is of


SERVED = Words(
    "Baseline and candidate ran beside each other, both freshly started, in pairs of blocks "
    "in random order.",
    "throughput, fixed load in flight",
    "server CPU per request",
    "The table is of requests sent one at a time, mutated ones included; with every timed answer "
    "of both arms",
    "the unmodified stack",
)
CALLED = Words(
    "Reference and candidate ran beside each other, both freshly started, on the same inputs, "
    "fresh in every call, in random order.",
    "calls per second",
    "CPU per call",
    "The table is of calls with ordinary content; with those of unusual content and every timed one",
    "the reference",
)


def summary(evidence: EvidenceFile) -> str:
    """Say what changed: gain with interval against the noise floor, class and verdict."""
    iteration, floor = evidence.iteration, evidence.noise.work.floor_pct
    gain = iteration.end_to_end
    headline = inline(iteration.hypothesis.title)
    if gain:
        headline = (
            f"**{headline}: {numbers.times(gain.throughput_ratio)} throughput** (95 % interval "
            f"{numbers.between(gain.ci, gain.throughput_ratio)}, {gain.pairs} fresh pairs; "
            f"noise floor {numbers.points(floor)})."
        )
    kind = str(iteration.hypothesis.change_class)
    stack = f"{code(evidence.stack.name)} at {code(numbers.short(evidence.stack.commit))}"
    lines = [
        headline,
        f"Class `{kind}`: {CLASSES[kind]}; {_outputs(iteration)}. "
        f"Verdict: **{iteration.verdict}** ({code(iteration.reason)}). Stack: {stack}.",
    ]
    if iteration.base_commit and iteration.base_commit != evidence.stack.commit:
        lines.append(
            f"Measured on top of {code(numbers.short(iteration.base_commit))}, itself a change of "
            "this run: merge that one first. The baseline below is that commit."
        )
    return "\n\n".join(lines)


def why_slow(evidence: EvidenceFile) -> str:
    """Give the reason for the hypothesis and the profile that it came from."""
    hypothesis, record = evidence.iteration.hypothesis, evidence.profile
    parts = [
        f"{text.prose(hypothesis.why)}\n\nExpected before anything was written: "
        f"{numbers.percent(hypothesis.share)} of server CPU, of which "
        f"{numbers.percent(hypothesis.expected_gain)} could go."
    ]
    if record and record.hotspots:
        top = sorted(record.hotspots, key=lambda h: -h.share)[:MOST_HOTSPOTS]
        rows = [[code(h.process), code(h.place, 120), numbers.percent(h.share)] for h in top]
        parts.append(table(["process", "place", "share of server CPU"], rows, right="llr"))
        parts.append(
            f"{inline(record.tool)} on the live server processes, {numbers.number(record.cpu_s)} "
            f"CPU seconds over {numbers.count(record.requests)} requests, on the baseline of this "
            f"change. Raw file: {code(_near(record.raw), 200)}."
        )
        split = [[code(model), *shares] for model, *shares in phases.rows(record)]
        if split:
            parts.append(table(phases.HEAD, split, right="lrrrr"))
            parts.append(f"{phases.NOTE[0].upper()}{phases.NOTE[1:]}.")
    return "\n\n".join(parts)


def change(evidence: EvidenceFile) -> str:
    """Give the explanation, the files, the gates and the equivalence of every output."""
    iteration = evidence.iteration
    sites = [code(site, 160) for site in iteration.hypothesis.sites[:MOST_SITES]]
    files = [code(name, 200) for name in iteration.files_changed[:MOST_FILES]]
    more = len(iteration.files_changed) - len(files)
    parts = [text.prose(iteration.explanation)]
    if files:
        parts.append("Files: " + ", ".join(files) + (f" and {more} more" if more > 0 else "") + ".")
    if sites:
        parts.append("Sites: " + ", ".join(sites) + ".")
    if iteration.gates:
        parts.append(gates(iteration.gates))
    if iteration.equivalence:
        parts.append(equivalence(iteration))
    return "\n\n".join(part for part in parts if part)


def equivalence(measured: Measured, words: Words = SERVED) -> str:
    """Return the equivalence table: candidate against baseline, and both against the referee."""
    refereed = any(row.referee_requests for row in measured.equivalence)
    head = ["output", "type", "requests", "elements", "bits differ", "max", "p99.9"]
    head += ["beyond limit", "limit"] + ["error of baseline", "error of candidate"] * refereed
    rows = [_output(row, refereed=refereed) for row in measured.equivalence]
    note = "Deviations are absolute, candidate against baseline."
    if refereed:
        most = max(row.referee_requests for row in measured.equivalence)
        note += (
            " The last two columns are the largest and the 99.9th percentile error against the "
            f"referee, which computes the same outputs in float64, over {numbers.count(most)} "
            "requests."
        )
    if measured.outputs_compared:
        note += f" {words.table} {numbers.count(measured.outputs_compared)} were compared."
    return table(head, rows, right="llrrrrrrrrr") + "\n\n" + note


def gates(rows: Sequence[Gate]) -> str:
    """List the gates with what each answered."""
    return table(["gate", "result", "reason", "detail"], map(_gate, folded(rows)))


def folded(rows: Sequence[Gate]) -> list[Gate]:
    """Return one gate where the same one answered alike several times, with the last detail."""
    same: dict[tuple[str, str, str], list[Gate]] = {}
    for row in rows:
        same.setdefault((row.name, row.result, row.reason), []).append(row)
    return [
        alike[-1].model_copy(update={"detail": f"{len(alike)} times, lastly: {alike[-1].detail}"})
        if len(alike) > 1
        else alike[0]
        for alike in same.values()
    ]


def gain(
    measured: Measured,
    noise: Noise | None,
    words: Words = SERVED,
    on_top: OnTop | None = None,
) -> str:
    """List every measured ratio with its interval, n and noise floor."""
    rows = _gain_rows(measured, noise, words)
    if on_top is not None and on_top.look is not None:
        rows.append(_on_top(on_top, on_top.look))
    if not rows:
        return ""
    head = ["measure", "ratio", "95 % interval", "n", "noise floor"]
    fresh = (
        " The gain comes from pairs measured after the change had been accepted, so that being "
        "chosen does not flatter it."
    )
    return (
        f"{words.how} Above 1 is better in every row.{fresh if measured.end_to_end else ''}\n\n"
        + table(head, rows, right="lrrrr")
        + f"\n\nNoise floor: what {words.baseline} differs by from itself in this run, as the half-width "
        "of its 95 % interval; a dash where none was measured of that ratio, as of CPU."
    )


def _gain_rows(measured: Measured, noise: Noise | None, words: Words) -> list[list[str]]:
    end, test, local = measured.end_to_end, measured.load_test, measured.local
    work = numbers.points(noise.work.floor_pct) if noise else numbers.ABSENT
    rows: list[list[str]] = []
    if end:
        n = f"{end.pairs} pairs"
        rows.append([words.throughput, *_ratio(end.throughput_ratio, end.ci), n, work])
        # The floor was measured on throughput; CPU has none of its own in the evidence.
        cpu = _ratio(end.cpu_ratio, end.cpu_ci)
        rows.append([words.cpu, *cpu, n, numbers.ABSENT])
    if test and test.p99_ratio is not None:
        n = f"{numbers.count(test.candidate.requests)} requests an arm"
        tail = numbers.points(noise.tail.floor_pct) if noise and noise.tail else numbers.ABSENT
        name = f"p99 at {numbers.per_second(test.rate)}"
        rows.append([name, *_ratio(test.p99_ratio, test.p99_ci), n, tail])
    if local:
        name = f"only the part: {inline(local.what, 120)}"
        n = f"{numbers.count(local.n)} pairs"
        rows.append([name, *_ratio(local.speedup, local.ci), n, numbers.ABSENT])
    return rows


def _on_top(on_top: OnTop, look: Look) -> list[str]:
    others = len(on_top.others)
    name = f"throughput on top of the {f'{others} others' if others != 1 else 'other change'}"
    n = f"{look.pairs} pairs, {look.k} launch{'es' if look.k != 1 else ''}"
    return [name, *_ratio(look.estimate, look.ci), n, numbers.percent(look.floor)]


def _ratio(ratio: float, ci: Interval | None) -> tuple[str, str]:
    return numbers.times(ratio), numbers.between(ci, ratio) if ci else numbers.ABSENT


def looks(measured: Measured, rate: str = "") -> str:
    """List the looks that led to the verdict, and say what their columns mean.

    `rate` says how often a change without effect is accepted.
    """
    if not measured.looks:
        return ""
    head = ["launches", "pairs", "throughput", "95 % interval", "gain", "floor", "z", "boundary"]
    rows = [_look(look) for look in measured.looks]
    shown = table([*head, "decision"], rows, right="rrrrrrrrl")
    return f"{_LOOKS}\n\n{shown}\n\n{_LOOKS_MEAN} {rate}".rstrip()


def load_test(measured: Measured) -> str:
    """Show the commit gate: both arms at the recorded rate against the SLO."""
    test = measured.load_test
    if not test:
        return ""
    low, high = (100 * end for end in test.over_slo_ci)
    return (
        f"Open loop at the recorded {numbers.per_second(test.rate)}; a latency counts from the "
        f"scheduled send. SLO: p99 at most {numbers.setting(test.slo_p99_ms)} ms.\n\n"
        + table(["", "baseline", "candidate"], _load_rows(test), right="lrr")
        + "\n\nShare over the SLO, candidate minus baseline: "
        f"{_signed(100 * test.over_slo_difference)} points (95 % interval {_signed(low)} to "
        f"{_signed(high)}); it passes only where the whole interval is below +1 point. "
        f"Outputs compared during the test: {numbers.count(test.outputs_compared)}."
        + (f" **Void: {code(test.void)}.**" if test.void else "")
    )


def _load_rows(test: LoadTest) -> list[list[str]]:
    arms = (test.baseline, test.candidate)
    names = [n for n in test.baseline.latency_ms if n in test.candidate.latency_ms]
    return [
        *(
            [inline(name, 40), *(numbers.ms(arm.latency_ms[name]) for arm in arms)]
            for name in names
        ),
        [f"over {numbers.setting(test.slo_p99_ms)} ms", *map(_over_slo, arms)],
        ["errors", *(numbers.count(arm.errors) for arm in arms)],
        ["requests", *(numbers.count(arm.requests) for arm in arms)],
        ["achieved of offered", *map(_achieved, arms)],
        ["send delay of the generator, p99", *(numbers.ms(arm.lag_p99_ms) for arm in arms)],
    ]


def _gate(gate: Gate) -> list[str]:
    return [code(gate.name), str(gate.result), code(gate.reason), inline(gate.detail, 200)]


def _outputs(iteration: Iteration) -> str:
    """Say in a few words what was seen of the outputs."""
    rows = iteration.equivalence
    if not rows:
        return "no outputs were compared"
    requests = numbers.count(max(row.requests for row in rows))
    differing = sum(row.differing for row in rows)
    if not differing and iteration.hypothesis.change_class is ChangeClass.EXACT:
        compared = numbers.count(iteration.outputs_compared)
        return f"every output is bit-identical on {compared} answers, every timed one among them"
    if not differing:
        return f"every output is bit-identical on {requests} requests"
    elements = numbers.count(sum(row.elements for row in rows))
    return (
        f"{numbers.count(differing)} of {elements} elements differ in bits on {requests} requests"
    )


def _output(row: OutputRow, *, refereed: bool) -> list[str]:
    cells = [
        code(row.output),
        inline(row.dtype, 40),
        numbers.count(row.requests),
        numbers.count(row.elements),
    ]
    cells += [numbers.count(row.differing), numbers.number(row.max_abs)]
    cells += [numbers.number(row.p999_abs), numbers.count(row.outliers)]
    cells.append("bits" if row.limit is None else numbers.setting(row.limit))
    if refereed:
        cells.append(_errors(row.referee_max_baseline, row.referee_p999_baseline))
        cells.append(_errors(row.referee_max_candidate, row.referee_p999_candidate))
    return cells


def _errors(largest: float | None, p999: float | None) -> str:
    if largest is None:
        return numbers.ABSENT
    tail = numbers.ABSENT if p999 is None else numbers.number(p999)
    return f"{numbers.number(largest)}, {tail}"


def _look(look: Look) -> list[str]:
    return [
        str(look.k),
        str(look.pairs),
        numbers.times(look.estimate),
        numbers.between(look.ci, look.estimate),
        numbers.percent(look.gain),
        numbers.percent(look.floor),
        f"{look.z:.2f}",
        f"{look.boundary:.2f}",
        f"{look.decision} ({code(look.reason)})",
    ]


def _over_slo(arm: ArmLoad) -> str:
    share = arm.over_slo / arm.requests if arm.requests else 0.0
    return f"{numbers.count(arm.over_slo)} ({numbers.percent(share)})"


def _achieved(arm: ArmLoad) -> str:
    return f"{numbers.number(arm.achieved)} of {numbers.number(arm.offered)} req/s"


def _signed(value: float) -> str:
    return f"{value:+.2f}"


def _near(path: str) -> str:
    """Keep the end of an absolute path: the rest is about a machine, not about the evidence."""
    pure = PurePosixPath(path)
    return str(PurePosixPath(*pure.parts[-2:])) if pure.is_absolute() else path

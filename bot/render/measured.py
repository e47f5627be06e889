"""What was measured of one change, as tables and lines that every rendering shows. Pure.

Columns, words, numbers and units are decided here alone. A table has no rows where nothing was
measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from bot.render import numbers
from bot.render.content import (
    Line,
    Row,
    Table,
    code,
    joined,
    left,
    right,
    row,
    said,
    strong,
    theirs,
    verdict,
    words,
)

if TYPE_CHECKING:
    from layers.evidence import (
        ArmLoad,
        Block,
        EndToEnd,
        Gate,
        HypothesisRecord,
        Interval,
        Iteration,
        LoadTest,
        LocalGain,
        Look,
        Noise,
        OnTop,
        OutputRow,
        Pair,
    )

GAIN = "How much faster, and how sure"
LOAD_TEST = "Load test at the SLO"
MOST_FILES = 20
MOST_SITES = 6
MOST_DETAIL = 300  # characters of what a gate says

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
_RESOLUTION = (
    "The smallest gain that nine judgements in ten would accept by this look, on this machine "
    "as noisy as it was. A change without effect is accepted in at most 0.5 % of judgements: "
    "the whole rate is for this one candidate, where a run shares it among all of its own."
)
_FRESH = (
    " The gain comes from pairs measured after the change had been accepted, so that being "
    "chosen does not flatter it."
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
    def pairs(self) -> Sequence[Pair]:
        """The pairs that the looks saw."""

    @property
    def confirm(self) -> Sequence[Pair]:
        """The fresh pairs that the gain comes from."""

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


def expected(hypothesis: HypothesisRecord) -> Line:
    """Say what was expected before anything was written."""
    text = (
        f"Expected before anything was written: {numbers.percent(hypothesis.share)} of server CPU, "
        f"of which {numbers.percent(hypothesis.expected_gain)} could go."
    )
    return (words(text),)


def named(names: Sequence[str], most: int = MOST_FILES, limit: int = 200) -> Line:
    """Name files or sites, and say how many more there are; empty for none."""
    more = len(names) - most
    rest = (words(f" and {more} more"),) if more > 0 else ()
    return (*joined(code(name, limit) for name in names[:most]), *rest)


def places(iteration: Iteration) -> list[Line]:
    """Name the files that a change touches, and the sites in the source that it is about."""
    files = named(iteration.files_changed)
    sites = joined(code(site, 160) for site in iteration.hypothesis.sites[:MOST_SITES])
    named_by = (("Files: ", files), ("Sites: ", sites))
    return [(words(name), *found, words(".")) for name, found in named_by if found]


def gates(rows: Sequence[Gate]) -> Table:
    """List the gates with what each answered."""
    shown = (
        row(
            code(gate.name),
            verdict(gate.result),
            code(gate.reason),
            theirs(gate.detail, MOST_DETAIL),
        )
        for gate in folded(rows)
    )
    return Table("Gates", left("gate", "result", "reason", "detail"), tuple(shown))


def folded(rows: Sequence[Gate]) -> list[Gate]:
    """Return one gate where the same one answered alike several times, with the last detail."""
    same: dict[tuple[str, str, str], list[Gate]] = {}
    for gate in rows:
        same.setdefault((gate.name, gate.result, gate.reason), []).append(gate)
    return [
        alike[-1].model_copy(update={"detail": f"{len(alike)} times, lastly: {alike[-1].detail}"})
        if len(alike) > 1
        else alike[0]
        for alike in same.values()
    ]


def equivalence(measured: Measured, called: Words = SERVED) -> Table:
    """Compare outputs: candidate against baseline, and both against the referee."""
    refereed = any(output.referee_requests for output in measured.equivalence)
    head = right("requests", "elements", "bits differ", "max", "p99.9", "beyond limit", "limit")
    if refereed:
        head += right("error of baseline", "error of candidate")
    return Table(
        "Equivalence of outputs",
        left("output", "type") + head,
        tuple(_output(output, refereed=refereed) for output in measured.equivalence),
        note=(words(_deviations(measured, called, refereed=refereed)),),
    )


def _deviations(measured: Measured, called: Words, *, refereed: bool) -> str:
    note = "Deviations are absolute, candidate against baseline."
    if refereed:
        most = max(output.referee_requests for output in measured.equivalence)
        note += (
            " The last two columns are the largest and the 99.9th percentile error against the "
            f"referee, which computes the same outputs in float64, over {numbers.count(most)} "
            "requests."
        )
    if measured.outputs_compared:
        note += f" {called.table} {numbers.count(measured.outputs_compared)} were compared."
    return note


def _output(output: OutputRow, *, refereed: bool) -> Row:
    cells = said(
        numbers.count(output.requests),
        numbers.count(output.elements),
        numbers.count(output.differing),
        numbers.number(output.max_abs),
        numbers.number(output.p999_abs),
        numbers.count(output.outliers),
        "bits" if output.limit is None else numbers.setting(output.limit),
    )
    if refereed:
        cells += said(
            _errors(output.referee_max_baseline, output.referee_p999_baseline),
            _errors(output.referee_max_candidate, output.referee_p999_candidate),
        )
    return row(code(output.output), theirs(output.dtype, 40)) + cells


def _errors(largest: float | None, p999: float | None) -> str:
    if largest is None:
        return numbers.ABSENT
    tail = numbers.ABSENT if p999 is None else numbers.number(p999)
    return f"{numbers.number(largest)}, {tail}"


def gain(
    measured: Measured,
    noise: Noise | None,
    called: Words = SERVED,
    on_top: OnTop | None = None,
) -> Table:
    """List every measured ratio with its interval, n and noise floor."""
    rows = _gain_rows(measured, noise, called)
    if on_top is not None and on_top.look is not None:
        rows.append(_on_top(on_top, on_top.look))
    fresh = _FRESH if measured.end_to_end else ""
    floor = (
        f"Noise floor: what {called.baseline} differs by from itself in this run, as the half-width "
        "of its 95 % interval; a dash where none was measured of that ratio, as of CPU."
    )
    return Table(
        GAIN,
        left("measure") + right("ratio", "95 % interval", "n", "noise floor"),
        tuple(rows),
        before=(words(f"{called.how} Above 1 is better in every row.{fresh}"),),
        note=(words(floor),),
    )


def _gain_rows(measured: Measured, noise: Noise | None, called: Words) -> list[Row]:
    end, test, local = measured.end_to_end, measured.load_test, measured.local
    work = numbers.points(noise.work.floor_pct) if noise else numbers.ABSENT
    rows: list[Row] = []
    if end:
        n = f"{end.pairs} pairs"
        rows.append(said(called.throughput, *_ratio(end.throughput_ratio, end.ci), n, work))
        # The floor was measured on throughput; CPU has none of its own in the evidence.
        cpu = _ratio(end.cpu_ratio, end.cpu_ci)
        rows.append(said(called.cpu, *cpu, n, numbers.ABSENT))
    if test and test.p99_ratio is not None:
        n = f"{numbers.count(test.candidate.requests)} requests an arm"
        tail = numbers.points(noise.tail.floor_pct) if noise and noise.tail else numbers.ABSENT
        name = f"p99 at {numbers.per_second(test.rate)}"
        rows.append(said(name, *_ratio(test.p99_ratio, test.p99_ci), n, tail))
    if local:
        part = row((words("only the part: "), theirs(local.what, 120)))
        n = f"{numbers.count(local.n)} pairs"
        rows.append(part + said(*_ratio(local.speedup, local.ci), n, numbers.ABSENT))
    return rows


def _on_top(on_top: OnTop, look: Look) -> Row:
    others = len(on_top.others)
    name = f"throughput on top of the {f'{others} others' if others != 1 else 'other change'}"
    n = f"{look.pairs} pairs, {numbers.counted(look.k, 'launch', 'es')}"
    return said(name, *_ratio(look.estimate, look.ci), n, numbers.percent(look.floor))


def _ratio(ratio: float, ci: Interval | None) -> tuple[str, str]:
    return numbers.times(ratio), numbers.between(ci, ratio) if ci else numbers.ABSENT


def looks(measured: Measured, note: Line = ()) -> Table:
    """List the looks that led to the verdict; `looks_mean` is the note that explains them."""
    head = right("launches", "pairs", "throughput", "95 % interval", "gain", "floor", "z")
    return Table(
        "Looks",
        head + right("boundary") + left("decision"),
        tuple(map(_look, measured.looks)),
        before=(words(_LOOKS),),
        note=note,
    )


def looks_mean(rate: str = "") -> Line:
    """Say what the columns of the looks mean; `rate`: how often a change without effect passes."""
    return (words(f"{_LOOKS_MEAN} {rate}".rstrip()),)


def _look(look: Look) -> Row:
    figures = said(
        str(look.k),
        str(look.pairs),
        numbers.times(look.estimate),
        numbers.between(look.ci, look.estimate),
        numbers.percent(look.gain),
        numbers.percent(look.floor),
        f"{look.z:.2f}",
        f"{look.boundary:.2f}",
    )
    return figures + row((words(f"{look.decision} "), code(look.reason)))


def load_test(measured: Measured) -> Table:
    """Show the commit gate: both arms at the recorded rate against the SLO."""
    head = left("") + right("baseline", "candidate")
    test = measured.load_test
    if test is None:
        return Table(LOAD_TEST, head, ())
    setting = (
        f"Open loop at the recorded {numbers.per_second(test.rate)}; a latency counts from the "
        f"scheduled send. SLO: p99 at most {numbers.setting(test.slo_p99_ms)} ms."
    )
    low, high = (_signed(100 * end) for end in test.over_slo_ci)
    difference = (
        f"Share over the SLO, candidate minus baseline: {_signed(100 * test.over_slo_difference)} "
        f"points (95 % interval {low} to {high}); it passes only where the whole interval is below "
        f"+1 point. Outputs compared during the test: {numbers.count(test.outputs_compared)}."
    )
    void = (strong("Void:"), words(" "), code(test.void), words(".")) if test.void else ()
    note = (words(f"{difference} " if void else difference), *void)
    return Table(LOAD_TEST, head, tuple(_load_rows(test)), before=(words(setting),), note=note)


def _load_rows(test: LoadTest) -> list[Row]:
    arms = (test.baseline, test.candidate)
    names = [n for n in test.baseline.latency_ms if n in test.candidate.latency_ms]
    return [
        *(
            row(theirs(name, 40)) + said(*(numbers.ms(arm.latency_ms[name]) for arm in arms))
            for name in names
        ),
        said(f"over {numbers.setting(test.slo_p99_ms)} ms", *map(_over_slo, arms)),
        said("errors", *(numbers.count(arm.errors) for arm in arms)),
        said("requests", *(numbers.count(arm.requests) for arm in arms)),
        said("achieved of offered", *map(_achieved, arms)),
        said("send delay of the generator, p99", *(numbers.ms(arm.lag_p99_ms) for arm in arms)),
    ]


def _over_slo(arm: ArmLoad) -> str:
    share = arm.over_slo / arm.requests if arm.requests else 0.0
    return f"{numbers.count(arm.over_slo)} ({numbers.percent(share)})"


def _achieved(arm: ArmLoad) -> str:
    return f"{numbers.number(arm.achieved)} of {numbers.number(arm.offered)} req/s"


def _signed(value: float) -> str:
    return f"{value:+.2f}"


def resolution(resolvable: Iterable[tuple[float, int, float]]) -> Table:
    """List the smallest gains in reach: gain, launches, minutes."""
    rows = (
        said(numbers.percent(least), str(launches), numbers.duration(60 * minutes))
        for least, launches, minutes in resolvable
    )
    return Table(
        "What could have been seen",
        right("gain, 1 - 1/ratio", "launches", "time"),
        tuple(rows),
        before=(words(_RESOLUTION),),
    )


def pairs(measured: Measured) -> Table:
    """List every pair: those of the looks, and the fresh ones."""
    kinds = (("look", measured.pairs), ("fresh", measured.confirm))
    rows = tuple(
        said(kind, str(p.launch), str(p.pair), f"{p.throughput_ratio:.4f}", f"{p.cpu_ratio:.4f}")
        for kind, found in kinds
        for p in found
    )
    head = left("kind") + right("launch", "pair", "throughput ratio", "CPU ratio")
    return Table(f"Every pair ({len(rows)})", head, rows)


def blocks(found: Sequence[Block], most: int | None = None) -> Table:
    """List every block, or the first `most`."""
    head = right("launch.pair.place", "completed", "errors", "wall s", "req/s")
    head += right("CPU ms / request", "generator cores", "neighbour cores")
    rows, of = tuple(map(_block, found[:most])), numbers.count(len(found))
    title = f"Every block ({of})"
    if len(rows) < len(found):
        title = f"The first {numbers.count(len(rows))} of {of} blocks"
    return Table(title, left("measure", "arm") + head + left("void"), rows)


def _block(block: Block) -> Row:
    done = block.completed
    cells = said(
        block.measure,
        block.arm,
        f"{block.launch}.{block.pair}.{block.position}",
        numbers.count(done),
        numbers.count(block.errors),
        f"{block.wall_s:.3f}",
        f"{block.rate:.3f}",
        f"{1000 * sum(block.cpu_s.values()) / done:.3f}" if done else numbers.ABSENT,
        f"{block.generator_cpu:.2f}",
        f"{block.neighbour_cpu:.2f}",
    )
    return cells + row(code(block.void or ""))

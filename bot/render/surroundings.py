"""What was measured around a change, as tables and lines that every rendering shows. Pure.

The profile, the noise of the machine, other attempts, the machine itself. Columns, words, numbers
and units are decided here alone. A table has no rows where nothing was measured.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from bot.render import numbers, phases
from bot.render.content import (
    Column,
    Facts,
    Line,
    Row,
    Span,
    Table,
    code,
    left,
    right,
    row,
    said,
    theirs,
    verdict,
    words,
)
from bot.render.measured import SERVED, Words
from layers.base import COOKBOOK
from layers.floor.triage import seconds
from layers.places import without_places

if TYPE_CHECKING:
    from layers.evidence import (
        Environment,
        FloorRecord,
        Iteration,
        Noise,
        NoiseFloor,
        OnTop,
        ProfileRecord,
        PullRequestRecord,
        RunReport,
        StackRecord,
    )

MACHINE = "Where it was measured"
MOST_TITLE = 120
MOST_DETAIL = 200  # characters of why a change was not accepted
_TRIED = (
    "Share: of server CPU in the profile. Expected: share times the gain that the card expects of "
    "it. A failed iteration is a tool that broke and says nothing about the change."
)
_BY = " By: the proposer that wrote it; of an agent's change, the agent expects the gain."
_ON_TOP = (
    "The whole stack against the same stack without the change, by the same looks as a candidate. "
    "What no longer pays is taken out, if each later change passes its own gate without it, and the "
    "rest is measured again; what cannot be told stays for what it gained when it was accepted. The "
    "last one accepted was judged on top of all the others."
)


def floor(record: FloorRecord) -> Table:
    """Hold what a request took against what each resource needs for it at least."""
    opt, together = record.t_opt_s, record.t_sum_s
    rows = [row(theirs(name), words(seconds(busy))) for name, busy in record.resources.items()]
    rows += [
        said("all overlap (t_opt)", seconds(opt)),
        said("none does (t_sum)", seconds(together)),
    ]
    rows.append(said("measured", seconds(record.measured_s)))
    head = (Column("of one request", "title"), *right("time"))
    note = (theirs(f"{record.reason[:1].upper()}{record.reason[1:]}."),)
    return Table("Floor", head, tuple(rows), note=note)


def hotspots(record: ProfileRecord, profiled: str, most: int | None = None) -> Table:
    """List the busiest places, all or the first `most`; `profiled` says what was profiled."""
    top = sorted(record.hotspots, key=lambda spot: -spot.share)[:most]
    rows = (
        row(code(spot.process), code(spot.place, 140), words(numbers.percent(spot.share)))
        for spot in top
    )
    how = (
        f" on the live server processes, {numbers.number(record.cpu_s)} CPU seconds over "
        f"{numbers.count(record.requests)} requests, {profiled}."
    )
    raw = (words(" Raw file: "), code(_near(record.raw), 200), words("."))
    return Table(
        "Hotspots",
        left("process", "place") + right("share of server CPU"),
        tuple(rows),
        note=(theirs(record.tool), words(how), *_by_process(record), *raw),
    )


def _by_process(record: ProfileRecord) -> Line:
    spans: list[Span] = []
    for name, share in record.by_process.items():
        before = ", " if spans else " By process: "
        spans += [words(before), theirs(name), words(f" {numbers.percent(share)}")]
    return (*spans, words(".")) if spans else ()


def by_phase(record: ProfileRecord) -> Table:
    """List what each model's process spends on receiving, computing and answering."""
    model, *shares = phases.HEAD
    rows = (row(code(name)) + said(*cells) for name, *cells in phases.rows(record))
    note = f"{phases.NOTE[0].upper()}{phases.NOTE[1:]}."
    return Table("Phases", left(model) + right(*shares), tuple(rows), note=(words(note),))


def noise_floor(noise: Noise, called: Words = SERVED, void: int = 0) -> Table:
    """List the noise floor of each measure; `void` blocks decided nothing."""
    floors = (
        (f"work: {called.throughput}", noise.work),
        ("sustained: rate held at the SLO", noise.sustained),
        ("tail: p99 at the recorded rate", noise.tail),
    )
    what = f"{called.baseline[0].upper()}{called.baseline[1:]}"
    note = (
        f"{what} against itself, in this run. The floor is the 95 % half-width of that difference; a "
        "smaller gain cannot be told from nothing."
    )
    if void:
        were = "blocks were" if void != 1 else "block was"
        note += f" {numbers.count(void)} {were} void and decided nothing."
    head = right("floor", "SD of pairs", "SD of launches", "difference seen", "pairs", "launches")
    return Table(
        "Noise floor",
        (Column("measure", "title"), *head),
        tuple(_floor(name, floor) for name, floor in floors if floor),
        note=(words(note),),
    )


def _floor(name: str, floor: NoiseFloor) -> Row:
    launches = floor.launch_sd_pct
    return said(
        name,
        numbers.points(floor.floor_pct),
        numbers.points(floor.pair_sd_pct),
        numbers.ABSENT if launches is None else numbers.points(launches),
        numbers.points(floor.median_pct),
        str(floor.pairs),
        str(floor.launches),
    )


def tried(iterations: Sequence[Iteration], linked: Container[int] = ()) -> Table:
    """List attempts with verdict and reason; the numbers in `linked` have details on the page.

    Who wrote them is said where it was not the cookbook alone.
    """
    mixed = any(iteration.hypothesis.proposer != COOKBOOK for iteration in iterations)
    head = (*right("#"), *left("verdict"), Column("change", "title"), Column("why", "why"))
    head += left("layer", "class") + right("share", "expected", "took")
    return Table(
        "What was tried",
        head + left("by") if mixed else head,
        tuple(
            _attempt(each, linked) + (row(code(each.hypothesis.proposer, 40)) if mixed else ())
            for each in iterations
        ),
        note=(words(_TRIED + _BY if mixed else _TRIED),),
    )


def _attempt(iteration: Iteration, linked: Container[int]) -> Row:
    hypothesis = iteration.hypothesis
    link = f"#i{iteration.n}" if iteration.n in linked else ""
    told = row(
        words(str(iteration.n)),
        verdict(iteration.verdict),
        theirs(hypothesis.title, MOST_TITLE, link),
        why(iteration),
    )
    return told + said(
        str(iteration.layer),
        str(hypothesis.change_class),
        numbers.percent(hypothesis.share),
        numbers.percent(hypothesis.score),
        numbers.duration(iteration.wall_s),
    )


def why(iteration: Iteration) -> Line:
    """Return the reason code with the number or detail that goes with it."""
    detail = without_places(iteration.detail)
    told = theirs(detail, MOST_DETAIL) if detail else words(_last_gain(iteration))
    return code(iteration.reason), words(" "), told


def why_plain(iteration: Iteration) -> str:
    """Return the number or detail that goes with the reason code, as one line of plain text."""
    return why(iteration)[-1].text


def _last_gain(iteration: Iteration) -> str:
    if iteration.end_to_end:
        end = iteration.end_to_end
        return f"{numbers.times_between(end.throughput_ratio, end.ci)} throughput"
    if iteration.looks:
        look = iteration.looks[-1]
        seen = numbers.times_between(look.estimate, look.ci)
        return f"{seen} throughput, floor {numbers.percent(look.floor)}"
    return ""


def refused(report: RunReport) -> list[Line]:
    """Say what was refused and why, then what was not tried."""
    turned_down = [
        (
            theirs(iteration.hypothesis.title, MOST_TITLE),
            words(": "),
            verdict(iteration.verdict),
            words(" "),
            *why(iteration),
        )
        for iteration in report.iterations
        if iteration.verdict != "accepted"
    ]
    return [*turned_down, *((words("not tried: "), theirs(line)) for line in report.not_tried)]


def on_top(found: Sequence[OnTop]) -> Table:
    """List the accepted changes, each measured again on top of the others."""
    head = (*right("#"), *left("on top of", "says"))
    return Table(
        "Accepted changes on top of one another",
        head + right("throughput", "95 % interval", "launches"),
        tuple(map(_on_top, found)),
        note=(words(_ON_TOP),),
    )


def _on_top(found: OnTop) -> Row:
    look = found.look
    others = ", ".join(map(str, found.others)) or "nothing"
    told = (words(f"{found.verdict.replace('_', ' ')} "), code(found.reason))
    cells = [numbers.ABSENT] * 3
    if look is not None:
        cells = [
            numbers.times(look.estimate),
            numbers.between(look.ci, look.estimate),
            str(look.k),
        ]
    return said(str(found.n), others) + row(told) + said(*cells)


def pull_requests(pulls: Sequence[PullRequestRecord], links: Mapping[int, str]) -> Table:
    """List the pull requests; `links` says where each one's body is."""
    rows = (
        row(
            words(str(pull.number)),
            theirs(pull.title, link=links.get(pull.number, "")),
            code(pull.branch),
            code(pull.base),
        )
        for pull in pulls
    )
    head = (*right("#"), Column("title", "title"), *left("branch", "onto"))
    return Table("Pull requests", head, tuple(rows))


def facts(machine: Environment, stack: StackRecord | None, seed: int, run_id: str = "") -> Facts:
    """Return hardware, versions, pins and traffic by name."""
    size = f", {machine.cores} cores, {numbers.number(machine.memory_gib)} GiB, "
    known: list[tuple[str, Line]] = [
        ("machine", (theirs(machine.cpu), words(size), theirs(machine.kernel))),
        ("server", _versions(machine)),
    ]
    if stack:
        pins = (
            f"server {_cpus(machine.server_cpus)}; load generator {_cpus(machine.generator_cpus)}"
        )
        known.append(("CPUs", (words(pins),)))
    if machine.sandbox:
        known.append(("sandbox", (words("candidates ran in "), theirs(machine.sandbox, 300))))
    if stack:
        slo = f"p99 at most {numbers.setting(stack.slo_p99_ms)} ms"
        known += [("traffic", _traffic(stack)), ("SLO", (words(slo),))]
    run = (code(run_id), words(", ")) if run_id else ()
    known.append(("run", (*run, words(f"seed {seed}"))))
    if stack and stack.owner:
        known.append(("owner", (theirs(stack.owner),)))
    return tuple(known)


def _versions(machine: Environment) -> Line:
    packages: list[Span] = []
    for name, version in sorted(machine.packages.items()):
        packages += [words(", "), theirs(name), words(" "), theirs(version)]
    return (theirs(machine.server), words(", Python "), theirs(machine.python), *packages)


def _traffic(stack: StackRecord) -> Line:
    rate = numbers.per_second(stack.recorded_rate)
    mean = stack.candidates_mean
    each = "" if mean is None else f", {numbers.number(mean)} candidates each on average"
    return (
        words(f"{numbers.count(stack.requests)} requests at {rate} to "),
        code(stack.entry),
        words(each),
    )


def _cpus(cpus: Sequence[int]) -> str:
    return ", ".join(map(str, cpus)) or "any"


def _near(path: str) -> str:
    """Keep the end of an absolute path: the rest is about a machine, not about the evidence."""
    pure = PurePosixPath(path)
    return str(PurePosixPath(*pure.parts[-2:])) if pure.is_absolute() else path

"""Plots of evidence as SVG: deterministic, text as text, legible on light and dark ground.

Black in the drawing becomes `currentColor`, so that an inline plot takes the colour of the page
around it; `standalone` adds a ground and a colour of its own for a plot that is a file. The other
colours are those of Okabe and Ito, told apart with any colour vision.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from bot.render import numbers
from bot.render.text import one_line
from layers.floor.walls import curve, step_s

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from layers.evidence import (
        Block,
        EvidenceFile,
        HotspotRecord,
        Interval,
        Iteration,
        LoadTest,
        NoiseFloor,
        ProfileRecord,
        RunReport,
        Total,
    )
    from layers.floor.walls import Point, Wall, Walls

INK = "#010203"  # replaced by currentColor
BASELINE = "#8c8c8c"
CANDIDATE = "#0072b2"
ALERT = "#d55e00"
BAND = "#e69f00"
HUES = (CANDIDATE, ALERT, "#009e73", "#cc79a7", BAND, "#56b4e9", "#b8a800", BASELINE)
MARKS = {"kv_bandwidth": "o", "weight_bandwidth": "v", "compute": "s", "network": "^"}
AT_MOST = "\N{LESS-THAN OR EQUAL TO}"
WIDTH_IN = 5.2  # still legible when scaled to a phone
PNG_DPI = 200
MOST_DECADES = 1e5  # of an axis that has labels between them
STYLE: dict[Any, Any] = {  # rcParams; matplotlib types its keys as literals
    "svg.fonttype": "none",
    "svg.hashsalt": "fvec",
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid.axis": "x",
    "axes.axisbelow": True,
    "grid.color": BASELINE,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "text.parse_math": False,  # names of a repository are not formulas
    "legend.frameon": False,
    "legend.fontsize": 9,
}
GROUND = (
    "<style>svg{color:#1f2328;background:#fff}"
    "@media (prefers-color-scheme:dark){svg{color:#e6edf3;background:#0d1117}}</style>"
)
NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_FONT = re.compile(r"font-family: [^;\"]+")
_GROUP_ID = re.compile(r"<g id=\"[^\"]*\">")


def of_evidence(evidence: EvidenceFile) -> dict[str, str]:
    """Return the plots of one pull request by name, as inline SVG; only those with data."""
    iteration = evidence.iteration
    plots = {"pairs": paired_ratios(iteration, evidence.noise.work)}
    if iteration.load_test:
        plots["latency"] = latencies(iteration.load_test)
    plots["time"] = cpu_by_process(evidence.blocks)
    return {name: svg for name, svg in plots.items() if svg}


def of_run(report: RunReport, blocks: Mapping[int, Sequence[Block]]) -> dict[str, str]:
    """Return the plots of a report by name; those of an iteration end in its number.

    `blocks` holds, by iteration, what its arms measured: baselines differ between iterations.
    """
    plots: dict[str, str] = {}
    for iteration in report.iterations:
        if report.noise:
            plots[f"pairs-{iteration.n}"] = paired_ratios(iteration, report.noise.work)
        if iteration.load_test:
            plots[f"latency-{iteration.n}"] = latencies(iteration.load_test)
        plots[f"time-{iteration.n}"] = cpu_by_process(blocks.get(iteration.n, ()))
    if report.profile:
        plots["profile"] = profile(report.profile)
    if report.total:
        plots["total"] = sustained(report.total)
    return {name: svg for name, svg in plots.items() if svg}


def standalone(svg: str) -> str:
    """Return an inline plot as a file that brings its ground, for light and for dark pages."""
    return re.sub(r"(<svg\b[^>]*>)", lambda hit: hit.group() + GROUND, svg, count=1)


def paired_ratios(iteration: Iteration, noise: NoiseFloor) -> str:
    """Draw the throughput ratio of every pair, the interval and the noise floor; "" if none."""
    rows = [("look", p) for p in iteration.pairs] + [("fresh", p) for p in iteration.confirm]
    if not rows:
        return ""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        floor = noise.floor_pct / 100
        axes.axhspan(1 - floor, 1 + floor, color=BAND, alpha=0.3, lw=0, label="noise floor")
        axes.axhline(1, color=INK, lw=0.7)
        for kind, colour, label in (
            ("look", BASELINE, "pair of a look"),
            ("fresh", CANDIDATE, "fresh pair"),
        ):
            points = [(x, p.throughput_ratio) for x, (k, p) in enumerate(rows, 1) if k == kind]
            if points:
                axes.plot(*zip(*points, strict=True), "o", color=colour, ms=5, label=label)
        _interval(axes, iteration, len(rows))
        axes.set_xlabel("pair, in the order measured")
        axes.set_ylabel("throughput, candidate / baseline")
        axes.set_xticks(range(1, len(rows) + 1))
        axes.set_xlim(0.4, len(rows) + 0.8)
        _legend_above(axes, 2)

    return _svg(draw, 2.7)


def latencies(test: LoadTest) -> str:
    """Draw the percentiles of both arms at the recorded rate, against the SLO."""
    names = [n for n in test.baseline.latency_ms if n in test.candidate.latency_ms]
    if not names:
        return ""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        rows = range(len(names))
        for offset, arm, colour, label in (
            (-0.19, test.baseline, BASELINE, "baseline"),
            (0.19, test.candidate, CANDIDATE, "candidate"),
        ):
            values = [arm.latency_ms[name] for name in names]
            bars = axes.barh([r + offset for r in rows], values, 0.36, color=colour, label=label)
            axes.bar_label(bars, [numbers.number(v) for v in values], padding=3, fontsize=8.5)
        axes.axvline(test.slo_p99_ms, color=ALERT, lw=1.4, ls="--", label="SLO for p99")
        axes.set_yticks(rows, [_label(name) for name in names])
        axes.invert_yaxis()
        axes.set_xlabel(f"latency at {numbers.number(test.rate)} req/s, ms")
        axes.set_xlim(0, 1.1 * max(test.slo_p99_ms, *(a for a in _all_latencies(test))))
        _legend_above(axes, 3)

    return _svg(draw, 0.9 + 0.45 * len(names))


def cpu_by_process(blocks: Sequence[Block]) -> str:
    """Draw CPU milliseconds per request by process, both arms; from the work blocks."""
    arms = {arm: _cpu_ms(blocks, arm) for arm in ("baseline", "candidate")}
    names = sorted(arms["baseline"], key=lambda name: -arms["baseline"][name])
    if not names or not arms["candidate"]:
        return ""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        rows = range(len(names))
        for offset, arm, colour in ((-0.19, "baseline", BASELINE), (0.19, "candidate", CANDIDATE)):
            values = [arms[arm].get(name, 0.0) for name in names]
            bars = axes.barh([r + offset for r in rows], values, 0.36, color=colour, label=arm)
            axes.bar_label(bars, [numbers.number(v) for v in values], padding=3, fontsize=8.5)
        axes.set_yticks(rows, [_label(n) for n in names])
        axes.invert_yaxis()
        axes.set_xlabel("server CPU per request, ms")
        axes.margins(x=0.1)
        _legend_above(axes, 2)

    return _svg(draw, 0.9 + 0.45 * len(names))


def profile(record: ProfileRecord, most: int = 10) -> str:
    """Draw the largest hotspots as shares of server CPU time."""
    top = sorted(record.hotspots, key=lambda h: -h.share)[:most]
    if not top:
        return ""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        shares = [100 * h.share for h in top]
        bars = axes.barh(range(len(top)), shares, 0.62, color=CANDIDATE)
        axes.bar_label(bars, [numbers.number(s) for s in shares], padding=3, fontsize=8.5)
        axes.set_yticks(range(len(top)), [_label(f"{h.process}: {_function(h)}") for h in top])
        axes.invert_yaxis()
        axes.set_xlabel("share of server CPU, %")
        axes.margins(x=0.1)

    return _svg(draw, 0.6 + 0.28 * len(top))


def _function(hotspot: HotspotRecord) -> str:
    return hotspot.place.partition(" in ")[0]


def sustained(total: Total) -> str:
    """Draw the rate held at the SLO at the start and at the end, each with its interval."""

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        arms = ((total.start, BASELINE, "start"), (total.end, CANDIDATE, "end"))
        for row, (arm, colour, _) in enumerate(arms):
            axes.barh(row, arm.rate, 0.5, color=colour)
            axes.plot(arm.ci, (row, row), color=INK, lw=1.6, marker="|", ms=9)
            axes.annotate(
                numbers.number(arm.rate),
                (max(arm.ci[1], arm.rate), row),
                (6, 0),
                textcoords="offset points",
                va="center",
            )
        axes.set_yticks((0, 1), [name for _, _, name in arms])
        axes.invert_yaxis()
        axes.set_xlabel(f"req/s sustained at p99 {AT_MOST} {numbers.setting(total.slo_p99_ms)} ms")
        axes.margins(x=0.12)

    return _svg(draw, 1.5)


def walls(found: Sequence[Walls], frontiers: Mapping[str, Sequence[Point]], *, png: bool) -> bytes:
    """Draw the time of a step with its walls, and what each layout yields, as a PNG or SVG file.

    Wide grey lines are the frontiers: what no other layout beats.
    """

    def draw(figure: Figure) -> None:
        above, below = figure.subplots(2)
        for layout, hue in zip(found, HUES, strict=False):
            _step_times(above, layout, hue)
            _yields(below, layout, hue)
        for points in frontiers.values():
            xs, ys = [p.user_per_s for p in points], [p.device_per_s for p in points]
            below.plot(xs, ys, color=BASELINE, lw=6, alpha=0.3, zorder=1)
        for axes in (above, below):
            axes.set(xscale="log", yscale="log")
            for axis in (axes.xaxis, axes.yaxis):
                _log_ticks(axis)
        above.set(xlabel="sequences on all devices", ylabel="time of a step, ms")
        below.set(xlabel="tokens/s of one user", ylabel="tokens/s of one device")
        _walls_legend(figure, found)

    if not png:
        return standalone(_svg(draw, 7.4)).encode()
    buffer = io.BytesIO()
    with mpl.rc_context(STYLE):
        _drawn(draw, 7.4).savefig(buffer, format="png", dpi=PNG_DPI, metadata={"Software": None})
    return buffer.getvalue()


def _log_ticks(axis: Axis) -> None:
    """Label a logarithmic axis at 1, 2 and 5 of each decade, of many decades at 1 alone."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < MOST_DECADES * low else (1,)))
    axis.set_major_formatter(lambda value, _: _thousands(value))
    axis.set_minor_formatter(NullFormatter())


def _thousands(value: float) -> str:
    """Return 0.5, 200, 5k."""
    return f"{numbers.setting(value / 1000)}k" if value >= 1000 else numbers.setting(value)


def _step_times(axes: Axes, layout: Walls, hue: str) -> None:
    """Draw t_opt and t_sum up to the last sequence that there is room for, and the walls on t_opt."""
    best, worst = (curve(layout.fleet, metric) for metric in ("t_opt", "t_sum"))
    loads = [point.sequences for point in best]
    if not loads:
        return
    opt, together = ([1000 / point.user_per_s for point in side] for side in (best, worst))
    axes.plot(loads, opt, color=hue, lw=1.6)
    axes.plot(loads, together, color=hue, lw=1, ls="--")
    axes.fill_between(loads, opt, together, color=hue, alpha=0.1, lw=0)
    axes.vlines(loads[-1], opt[-1], together[-1], color=hue, lw=3)
    for wall in layout.walls:
        if wall.sequences is not None and _is_drawn(wall):
            at_ms = 1000 * step_s(layout.fleet.at(wall.sequences), "t_opt")
            axes.plot(
                wall.sequences, at_ms, MARKS[wall.resource], color=hue, ms=7, mec=INK, zorder=3
            )


def _is_drawn(wall: Wall) -> bool:
    """Say whether load meets this wall, and not from the first sequence on."""
    return wall.resource in MARKS and wall.within and (wall.sequences or 0) > 1


def _yields(axes: Axes, layout: Walls, hue: str) -> None:
    """Draw tokens/s of a device against those of a user, if all overlaps and if nothing does."""
    for metric, style in (("t_opt", "-"), ("t_sum", "--")):
        points = curve(layout.fleet, metric)
        xs, ys = [p.user_per_s for p in points], [p.device_per_s for p in points]
        axes.plot(xs, ys, color=hue, lw=1.6 if style == "-" else 1, ls=style)


def _walls_legend(figure: Figure, found: Sequence[Walls]) -> None:
    """Name layouts by colour, walls by mark, and what solid, dashed and the bar at the end are."""
    shown = {w.resource for layout in found for w in layout.walls if _is_drawn(w)}
    handles = [
        Line2D([], [], color=hue, lw=1.6, label=_label(layout.fleet.name))
        for layout, hue in zip(found, HUES, strict=False)
    ]
    handles += [
        Line2D([], [], color=INK, lw=1, label="t_opt"),
        Line2D([], [], color=INK, lw=1, ls="--", label="t_sum"),
        Line2D([], [], color=BASELINE, lw=6, alpha=0.3, label="best of all"),
        Line2D([], [], color=INK, marker="|", ms=10, mew=3, ls="", label="memory full"),
    ]
    handles += [
        Line2D([], [], color=BASELINE, mec=INK, marker=mark, ls="", label=f"{_words(name)} binds")
        for name, mark in MARKS.items()
        if name in shown
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=2)


def _words(resource: str) -> str:
    return resource.replace("_", " ").replace("kv", "KV")


def _interval(axes: Axes, iteration: Iteration, at: int) -> None:
    """Mark the estimate that is printed: of the fresh pairs, else of the last look."""
    estimate: float
    ci: Interval
    if iteration.end_to_end:
        estimate, ci = iteration.end_to_end.throughput_ratio, iteration.end_to_end.ci
    elif iteration.looks:
        estimate, ci = iteration.looks[-1].estimate, iteration.looks[-1].ci
    else:
        return
    axes.plot((at + 0.5, at + 0.5), ci, color=INK, lw=1.6, marker="_", ms=8)
    axes.plot(at + 0.5, estimate, "D", color=INK, ms=4.5, label="estimate, 95 %")


def _cpu_ms(blocks: Sequence[Block], arm: str) -> dict[str, float]:
    """Sum CPU by process over the valid work blocks of one arm, per completed request."""
    used = [b for b in blocks if b.arm == arm and b.measure == "work" and not b.void]
    completed = sum(b.completed for b in used)
    names = {name for b in used for name in b.cpu_s}
    return {
        n: 1000 * sum(b.cpu_s.get(n, 0.0) for b in used) / completed for n in names if completed
    }


def _all_latencies(test: LoadTest) -> list[float]:
    return [*test.baseline.latency_ms.values(), *test.candidate.latency_ms.values()]


def _label(text: str, most: int = 34) -> str:
    """Keep names of a repository short and free of control characters."""
    return one_line(text, most)


def _legend_above(axes: Axes, columns: int) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=columns, borderaxespad=0.2)


def _svg(draw: Callable[[Figure], None], height_in: float) -> str:
    """Return the drawing as an SVG element without XML prologue."""
    with mpl.rc_context(STYLE):
        buffer = io.StringIO()
        figure = _drawn(draw, height_in)
        figure.savefig(buffer, format="svg", transparent=True, metadata=NO_METADATA)
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    # Without the ids of groups, several plots can stand in one page.
    return _GROUP_ID.sub("<g>", _FONT.sub("font-family: system-ui, sans-serif", text))


def _drawn(draw: Callable[[Figure], None], height_in: float) -> Figure:
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    draw(figure)
    for axes in figure.axes:
        axes.grid(visible=True)
    return figure

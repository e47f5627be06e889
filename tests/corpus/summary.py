"""What a run of the corpora found: rates with their bounds, the table, the report's files. Pure
but for `write`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from scipy import stats

from tests.corpus.cases import LAYERS, Corpus

HERE = Path(__file__).parent
LEAST_ACCEPTED = 0.95  # of the must-accept corpus


@dataclass(frozen=True, slots=True)
class Result:
    """What the judge, and the naive checker beside it, said of one case."""

    corpus: Corpus
    name: str
    layer: str
    change_class: str
    summary: str
    expect: tuple[str, ...]
    verdict: str  # of the judge; "broke" where it raised an error of its own
    reason: str
    detail: str
    gain: float | None  # throughput ratio of the confirmation
    wall_s: float
    naive_accepts: bool | None  # None: not run outside the sandbox
    naive_why: str
    naive_speedup: float | None

    @property
    def outcome(self) -> str:
        """One word: caught, caught-otherwise, accepted (a miss) or accepts, refused, broke."""
        if self.verdict in {"broke", "failed"}:
            return "broke"
        if self.corpus == "accept":
            return "accepts" if self.verdict == "accepted" else "refused"
        if self.verdict == "accepted":
            return "accepted"
        return "caught" if self.reason in self.expect else "caught-otherwise"

    @property
    def wrong(self) -> bool:
        """Whether a person must look at it."""
        return self.outcome not in {"caught", "accepts"}


@dataclass(frozen=True, slots=True)
class Rate:
    """A count out of a number, with the exact (Clopper-Pearson) 95 % interval."""

    what: str
    count: int
    of: int
    low: float
    high: float

    @property
    def share(self) -> float:
        """The rate itself."""
        return self.count / self.of if self.of else 0.0

    @property
    def line(self) -> str:
        """As people read it."""
        bounds = f"95 % interval {100 * self.low:.1f} to {100 * self.high:.1f} %"
        return f"{self.what}: {self.count} of {self.of} ({100 * self.share:.1f} %, {bounds})"


def rate(what: str, hits: Iterable[bool]) -> Rate:
    """Return the share of hits."""
    seen = list(hits)
    if not seen:
        return Rate(what, 0, 0, 0.0, 1.0)
    interval = stats.binomtest(sum(seen), len(seen)).proportion_ci(0.95, method="exact")
    return Rate(what, sum(seen), len(seen), float(interval.low), float(interval.high))


def rates(results: Sequence[Result]) -> list[Rate]:
    """Return the judge's rates and the naive checker's, on both corpora."""
    rows = []
    for corpus in ("reject", "accept"):
        of = [r for r in results if r.corpus == corpus]
        naive = [r.naive_accepts for r in of if r.naive_accepts is not None]
        what = f"must-{corpus} accepted by"
        rows.append(rate(f"{what} fvec judge", (r.verdict == "accepted" for r in of)))
        rows.append(rate(f"{what} the naive checker", naive))
    return [row for row in rows if row.of]


def counts(results: Sequence[Result]) -> list[tuple[str, str, int, int, int]]:
    """Return (corpus, layer, cases, as expected, to look at) of each layer that has cases."""
    rows = []
    for corpus in ("reject", "accept"):
        for layer in LAYERS:
            of = [r for r in results if (r.corpus, r.layer) == (corpus, layer)]
            if of:
                bad = sum(r.wrong for r in of)
                rows.append((corpus, layer, len(of), len(of) - bad, bad))
    return rows


def passed(results: Sequence[Result]) -> bool:
    """Whether no must-reject was accepted, the judge never broke, and enough was accepted."""
    honest = [r.verdict == "accepted" for r in results if r.corpus == "accept"]
    fooled = any(r.outcome == "accepted" for r in results)
    broke = any(r.outcome == "broke" for r in results)
    return not fooled and not broke and sum(honest) >= LEAST_ACCEPTED * len(honest)


def text(results: Sequence[Result], wall_s: float) -> str:
    """Return the table for the terminal."""
    lines = [f"{'corpus':8}{'layer':10}{'cases':>6}{'as expected':>13}{'to look at':>12}"]
    lines += [
        f"{c:8}{layer:10}{n:6}{good:13}{bad:12}" for c, layer, n, good, bad in counts(results)
    ]
    lines += ["", *(row.line for row in rates(results))]
    lines += [f"wall time: {wall_s / 60:.1f} minutes"]
    wrong = [r for r in results if r.wrong]
    if wrong:
        lines += ["", "to look at:"]
    for r in wrong:
        expected = " or ".join(r.expect)
        lines += [f"  {r.outcome:17}{r.corpus}/{r.name}: {r.verdict} {r.reason}, not {expected}"]
        lines += [f"{'':19}{' '.join(r.detail.split())[:150]}"] if r.detail else []
    return "\n".join([*lines, ""])


def write(out: Path, results: Sequence[Result], wall_s: float) -> None:
    """Write report.json and report.html into `out`."""
    out.mkdir(parents=True, exist_ok=True)
    document = {
        "schema": "fvec.corpus/1",
        "passed": passed(results),
        "rates": [asdict(row) | {"share": row.share} for row in rates(results)],
        "results": [asdict(r) | {"outcome": r.outcome} for r in results],
        "wall_s": wall_s,
    }
    (out / "report.json").write_text(json.dumps(document, indent=1) + "\n")
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    page = environment.get_template("report.html.j2").render(
        results=results,
        rates=rates(results),
        counts=counts(results),
        passed=passed(results),
        minutes=wall_s / 60,
    )
    (out / "report.html").write_text(page)

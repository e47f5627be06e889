"""Recorded launches of patches that change nothing, `fvec.launches/1`: one JSON line a patch.

What the statistics are held against besides simulation. `benchmarks/record_noise.py` writes the
lines, `layers.measure.resample` draws runs from them; a recording names no path of its machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from math import isclose, log
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from layers.base import ChangeClass
from layers.errors import InvalidInput, Location
from layers.evidence import Block, JudgeReport, Pair, Verdict
from layers.measure import conduct

ROUNDING = 1e-4  # by which a written ratio may differ from that of the written rates
LaunchKind: TypeAlias = Literal["noise", "candidate"]


class _Line(BaseModel):
    """Base of all that is written: frozen, strict, finite numbers only."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, populate_by_name=True
    )


class RecordedPair(_Line):
    """Two blocks side by side; of two numbers the first is the baseline's."""

    ratio: float = Field(gt=0)  # candidate's rate over the baseline's
    rates: list[float] = Field(min_length=2, max_length=2)  # completions per second
    cpu_ms: list[float] = Field(min_length=2, max_length=2)  # server CPU per request
    first: Literal["baseline", "candidate"]  # which block ran first
    at_s: float | None = None  # start of the first block, from the start of the judgement
    void: str | None = None  # reason code; measured again, and decided nothing

    @model_validator(mode="after")
    def _agrees(self) -> RecordedPair:
        if min(self.rates) <= 0 or not isclose(
            self.ratio, self.rates[1] / self.rates[0], rel_tol=ROUNDING
        ):
            raise ValueError("ratio is not that of the rates")
        return self


class RecordedLaunch(_Line):
    """One launch; `noise` is the unmodified stack against itself."""

    kind: LaunchKind
    number: int = Field(ge=1)
    pairs: list[RecordedPair]

    def log_ratios(self) -> list[float]:
        """Return the log ratios of the pairs that are not void."""
        return [log(pair.ratio) for pair in self.pairs if pair.void is None]


class RecordedLook(_Line):
    """What the rule said when it was recorded."""

    k: int = Field(ge=1)
    estimate: float = Field(gt=0)
    decision: Literal["accept", "reject", "continue", "inconclusive"]
    reason: str


class Recording(_Line):
    """One patch without effect, judged."""

    schema_: Literal["fvec.launches/1"] = Field(default="fvec.launches/1", alias="schema")
    patch: str  # what it does, for people
    session: str  # one calibration serves its patches; the first has the A/A launches
    patch_sha256: str
    seed: int
    change_class: ChangeClass = Field(strict=False)
    candidates: int = Field(ge=1)  # that the rate of false accepts was shared among
    verdict: Verdict = Field(strict=False)
    reason: str
    floor_pct: float | None = None  # e, as the judgement had it
    looks: list[RecordedLook]
    launches: list[RecordedLaunch]
    machine: str
    versions: dict[str, str]
    commit: str  # of the stack that was judged
    recorded_at: str  # ISO 8601, UTC
    wall_s: float

    def of_kind(self, kind: LaunchKind) -> list[list[float]]:
        """Return the log ratios of the launches of one kind, as `stats.look` takes them."""
        return [launch.log_ratios() for launch in self.launches if launch.kind == kind]


def noise_of(recordings: Iterable[Recording]) -> dict[str, list[list[float]]]:
    """Return the A/A launches of every session, as `stats.noise_floor` takes them."""
    found: dict[str, list[list[float]]] = {}
    for one in recordings:
        found.setdefault(one.session, []).extend(one.of_kind("noise"))
    return found


def recording(
    report: JudgeReport,
    patch: str,
    *,
    candidates: int,
    session: str,
    calibrated: bool,
    recorded_at: str,
) -> Recording:
    """Return a judgement as a recording; `patch` says what was changed.

    `calibrated`: the blocks begin with the A/A launches of its session, which later patches share.
    Raises ValueError where the blocks of the report are not those of its pairs.
    """
    environment = report.environment
    return Recording(
        patch=patch,
        session=session,
        patch_sha256=report.patch_sha256 or "",
        seed=report.seed,
        change_class=report.change_class,
        candidates=candidates,
        verdict=report.verdict,
        reason=report.reason,
        floor_pct=report.noise.work.floor_pct if report.noise else None,
        looks=[
            RecordedLook(k=x.k, estimate=x.estimate, decision=x.decision, reason=x.reason)
            for x in report.looks
        ],
        launches=_launches(report, calibrated=calibrated),
        machine=f"{environment.cpu}, {environment.cores} cores",
        versions={"server": environment.server, "python": environment.python},
        commit=report.stack.commit if report.stack else "",
        recorded_at=recorded_at,
        wall_s=round(report.wall_s, 1),
    )


def _launches(report: JudgeReport, *, calibrated: bool) -> list[RecordedLaunch]:
    """Return the launches of a judgement: its blocks, in the order in which they ran.

    A/A launches come first and count from 1, as the candidate's own do after them.
    """
    work = [block for block in report.blocks if block.measure == "work" and block.launch >= 1]
    groups = [(number, list(group)) for number, group in groupby(work, key=lambda b: b.launch)]
    numbers = [number for number, _ in groups]
    restarts = (i for i in range(1, len(numbers)) if numbers[i] <= numbers[i - 1])
    again = next(restarts, len(numbers)) if calibrated else 0
    began = next((b.started_at for b in work if b.started_at is not None), 0.0)
    judged = {(pair.launch, pair.pair): pair for pair in [*report.pairs, *report.confirm]}
    found: list[RecordedLaunch] = []
    seen: set[tuple[int, int]] = set()
    for i, (launch, group) in enumerate(groups):
        kind: LaunchKind = "noise" if i < again else "candidate"
        pairs = []
        for number, blocks in groupby(group, key=lambda block: block.pair):
            pair = _pair(list(blocks), began)
            if pair is not None and kind == "candidate":
                seen.add((launch, number))
                pair = _as_judged(pair, judged, (launch, number))
            pairs += [pair] if pair is not None else []
        found.append(RecordedLaunch(kind=kind, number=launch, pairs=pairs))
    if not judged.keys() <= seen:
        raise ValueError("the report has pairs without blocks")
    return found


def _as_judged(
    pair: RecordedPair, judged: Mapping[tuple[int, int], Pair], key: tuple[int, int]
) -> RecordedPair:
    """Return the pair, void where the report left it out of a launch that it judged."""
    if key in judged:
        if not isclose(pair.ratio, judged[key].throughput_ratio, rel_tol=ROUNDING):
            raise ValueError(f"the blocks of pair {key} are not those of its ratio")
        return pair
    if pair.void is None and any(launch == key[0] for launch, _ in judged):
        return pair.model_copy(update={"void": "not_judged"})
    return pair


def _pair(blocks: Sequence[Block], began: float) -> RecordedPair | None:
    """Return a pair; None where an arm is missing or completed nothing."""
    arms = {block.arm: block for block in blocks}
    if len(arms) < 2 or min(block.completed for block in blocks) == 0:
        return None
    both = [arms["baseline"], arms["candidate"]]
    first = min(blocks, key=lambda block: block.position)
    return RecordedPair(
        ratio=round(both[1].rate / both[0].rate, 7),
        rates=[float(f"{block.rate:.7g}") for block in both],
        cpu_ms=[round(1000 * sum(b.cpu_s.values()) / b.completed, 4) for b in both],
        first=first.arm,
        at_s=None if first.started_at is None else round(first.started_at - began, 2),
        void=next(iter(conduct.void_arms(arms).values()), None),
    )


def line(found: Recording) -> str:
    """Return a recording as its line, without the line feed."""
    return found.model_dump_json(by_alias=True, exclude_none=True)


def parse(lines: Iterable[str], path: Path) -> list[Recording]:
    """Return the recordings; raises InvalidInput with the line of `path` that is none."""
    found = []
    for number, text in enumerate(lines, 1):
        try:
            found.append(Recording.model_validate_json(text))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the line"
            raise InvalidInput(
                f"{place}: {first['msg']}",
                at=Location(path, number),
                hint="remove the line and record again: make record-noise",
            ) from error
    return found


def read(path: Path) -> list[Recording]:
    """Return the recordings in a file; raises InvalidInput where it cannot be read as such."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"cannot be read: {error}", at=Location(path), hint="record it: make record-noise"
        ) from error
    return parse(text.splitlines(), path)

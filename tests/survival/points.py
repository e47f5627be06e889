"""Kill points: where a life ends, what is tried there, and what came of it."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.survival import lives, world

RANDOM_EVERY = 5  # one point in five is a moment of the clock instead
TWICE_EVERY = 4  # and at one in four the process that goes on is killed too


@dataclass(frozen=True)
class Point:
    """Where a run is killed: at a moment or after a time; then again, or not, while it goes on."""

    number: int
    at: int | None
    after_s: float | None
    again_at: int | None


@dataclass(frozen=True)
class Result:
    """What came of one point; `wrong` says what differs from the run that was not killed."""

    point: Point
    kind: str
    lives: int
    killed: int
    wrong: str


@dataclass(frozen=True)
class Uncut:
    """The run that was not killed."""

    moments: int
    wall_s: float
    outcome: dict[str, Any]


def chosen(uncut: Uncut, count: int, seed: int = 0) -> Iterator[Point]:
    """Yield `count` points, spread evenly over all moments, some of them over the time instead."""
    rng = random.Random(seed)
    for number in range(count):
        at = 1 + (number * uncut.moments) // count + rng.randrange(max(1, uncut.moments // count))
        again = rng.randrange(1, uncut.moments) if number % TWICE_EVERY == 1 else None
        if number % RANDOM_EVERY == 2:
            yield Point(number, None, rng.uniform(0, uncut.wall_s), again)
        else:
            yield Point(number, min(at, uncut.moments), None, again)


def tried(point: Point, uncut: Uncut, folder: Path) -> Result:
    """Kill a run at a point and have it resumed; compare what is left with the uncut run's."""
    place = folder / f"point-{point.number}"
    place.mkdir()
    root = world.repository(place / "ads")
    argv = ["run", str(root), "--out", str(place / "out")]
    first = lives.live(argv, place, at=point.at, after_s=point.after_s)
    ends, kind = [first], first.last
    if point.again_at is not None:
        ends.append(lives.live([*argv, "--resume"], place, at=point.again_at))
    ends.append(lives.live([*argv, "--resume"], place))
    wrong = _difference(ends[-1], uncut, root, place / "out")
    if not wrong:
        shutil.rmtree(place)
    killed = sum(end.code is None for end in ends)
    return Result(point, kind if point.at else "the clock", len(ends), killed, wrong)


def _difference(end: lives.End, uncut: Uncut, root: Path, out: Path) -> str:
    if end.code != 0:
        return f"resumed with exit code {end.code}: {end.said.strip()[-600:]}"
    found = world.outcome(root, out)
    if _spent_by_cuts(found["report"], out):
        found["report"]["conclusion"] = uncut.outcome["report"]["conclusion"]
    return "; ".join(
        f"{name}: {_shown(value)} instead of {_shown(uncut.outcome[name])}"
        for name, value in found.items()
        if value != uncut.outcome[name]
    )


def _spent_by_cuts(report: dict[str, Any], out: Path) -> bool:
    """Say whether a run ended by its number of candidates, for trials that were cut count as such.

    A trial that is killed after a look is one more candidate: twice, and the ten are spent before
    the run that was not killed finds nothing more to try. Then it says so, and all else is alike.
    """
    entries = map(json.loads, (out / "journal.jsonl").read_text().splitlines())
    cut = [entry["data"]["cut"] for entry in entries if entry["kind"] == "budget"][-1]
    spent = len(report["iterations"]) + cut
    return cut > 0 and f"; stopped after {spent} candidates" in report["conclusion"]


def _shown(value: object) -> str:
    return repr(value)[:400]


def uncut_run(folder: Path) -> Uncut:
    """Run once without a kill."""
    folder.mkdir()
    root = world.repository(folder / "ads")
    began = lives.now_s()
    end = lives.live(["run", str(root), "--out", str(folder / "out")], folder)
    assert end.code == 0, end.said
    return Uncut(end.moments, lives.now_s() - began, world.outcome(root, folder / "out"))

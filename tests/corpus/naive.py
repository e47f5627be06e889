"""The checker that most published kernel agents use, kept here to be fooled.

Five seeds, one shape, `allclose` at 1e-2, no sandbox, the same input objects in every timed call,
one arm timed after the other in the candidate's own process: what KernelBench's first version
did. Its acceptance rate on the corpora stands beside the judge's.

Run by path in a process of its own: `naive.py CASE RESULT`, standard library and numpy alone.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SEEDS = range(5)
TOLERANCE = 1e-2
WARM_UPS, TIMED = 3, 20
LEAST_SPEEDUP = 1.05
TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class NaiveVerdict:
    """What the naive checker says."""

    accepted: bool
    why: str
    speedup: float | None = None


def check(path: Path, python: Path, env: Mapping[str, str]) -> NaiveVerdict:
    """Check one case file, which the child may change: pass a copy. Never raises for the case."""
    result = path.with_suffix(".naive.json")
    argv = [str(python), str(Path(__file__).resolve()), str(path), str(result)]
    try:
        subprocess.run(
            argv,
            cwd=path.parent,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            check=False,
        )
        return NaiveVerdict(**json.loads(result.read_text()))
    except subprocess.TimeoutExpired:
        return NaiveVerdict(accepted=False, why="timeout")
    except (OSError, ValueError, TypeError):
        return NaiveVerdict(accepted=False, why="raises or crashes")


def _load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("case", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["case"] = module
    spec.loader.exec_module(module)
    return module


def _leaves(value: Any) -> list[Any]:
    """Return the arrays and scalars of nested outputs, in order."""
    if isinstance(value, Mapping):
        return [leaf for name in value for leaf in _leaves(value[name])]
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def _close(expected: Any, found: Any) -> bool:
    """Compare as `allclose` does; what has no numbers by equality."""
    import numpy as np

    pairs = zip(_leaves(expected), _leaves(found), strict=False)
    for old, new in pairs:
        a, b = np.asarray(old), np.asarray(new)
        try:
            same = np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE)
        except TypeError:
            same = np.array_equal(a, b)
        if not same:
            return False
    return True


def _seconds(function: Any, inputs: Mapping[str, Any]) -> float:
    """Return the time of one call, over a loop with the same objects."""
    for _ in range(WARM_UPS):
        function(**inputs)
    start = time.perf_counter()
    for _ in range(TIMED):
        function(**inputs)
    return (time.perf_counter() - start) / TIMED


def _judge(path: Path) -> NaiveVerdict:
    import numpy as np

    case = _load(path)
    ref, new = (f() if isinstance(f, type) else f for f in (case.ref, case.new))
    batch = getattr(case.make, "batch", 256)
    for seed in SEEDS:
        inputs = case.make(np.random.default_rng(seed), batch)
        expected = ref(**inputs)
        if not _close(expected, new(**inputs)):
            return NaiveVerdict(accepted=False, why="outputs differ")
    speedup = _seconds(ref, inputs) / _seconds(new, inputs)
    fast = speedup > LEAST_SPEEDUP
    return NaiveVerdict(accepted=fast, why="faster" if fast else "no gain", speedup=speedup)


def _main(path: Path, result: Path) -> None:
    """Leave the verdict in `result`; a case that raises leaves none, which the parent sees."""
    verdict = _judge(path)
    result.write_text(
        json.dumps({"accepted": verdict.accepted, "why": verdict.why, "speedup": verdict.speedup})
    )


if __name__ == "__main__":
    _main(Path(sys.argv[1]), Path(sys.argv[2]))

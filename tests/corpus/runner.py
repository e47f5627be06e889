"""Runs the corpora through the judge and the naive checker: `make corpus`.

    python -m tests.corpus.runner [WORD...] [--corpus reject] [--layer kernel] [--out DIRECTORY]

WORDs choose cases whose names contain one of them. Exit code 1 when a must-reject was accepted,
the judge broke, or less than 95 % of the must-accepts were accepted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from layers.callables.judge import CallableOptions, judge_callable
from layers.errors import FvecError, Missing
from layers.events import Silent
from layers.evidence import JudgeReport
from layers.manifest import SandboxMode, SandboxSection
from layers.programs import ONE_THREAD, scrubbed_environment
from layers.triton.environment import ensure
from tests.corpus import cases, naive, stacks, summary
from tests.corpus.cases import LAYERS, Case, StackCase
from tests.corpus.summary import Result

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "examples" / "ads-serving" / "requirements.txt"  # has torch
FILE = "functions.py"  # what a case is called where it runs: nothing that names a corpus
MEMORY_GIB, PROCESSES = 1.0, 128  # of one process under judgement: bombs burst early


@dataclass(frozen=True, slots=True)
class Setting:
    """What every case runs with."""

    mode: SandboxMode = SandboxMode.STRICT
    seed: int = 0
    torch_python: Path | None = None  # None: cases that need torch are left out
    naive: bool = True


def python_with_torch() -> Path | None:
    """Return the server environment's interpreter, None where it is not installed."""
    try:
        return ensure(REQUIREMENTS, allow_install=False).python
    except Missing:
        return None


def choose(
    words: Sequence[str], corpus: str | None, layer: str | None, *, stack: bool
) -> list[Case | StackCase]:
    """Return the cases that are asked for; with `stack` the full-stack ones too."""
    return [
        case
        for case in (*cases.load_all(), *(cases.load_stack() if stack else ()))
        if (not words or any(word in case.name for word in words))
        and corpus in (None, case.corpus)
        and layer in (None, case.layer)
    ]


def runnable(case: Case | StackCase, setting: Setting) -> bool:
    """Whether this machine and setting can run a case."""
    if isinstance(case, StackCase):
        return setting.mode is SandboxMode.STRICT
    if case.torch and setting.torch_python is None:
        return False
    return not (case.unsafe and setting.mode is not SandboxMode.STRICT)


def run_case(case: Case | StackCase, setting: Setting) -> Result:
    """Run one case of either kind."""
    return run_stack(case, setting) if isinstance(case, StackCase) else run_callable(case, setting)


def run_stack(case: StackCase, setting: Setting) -> Result:
    """Judge one patch of the tiny stack; the naive checker has no word on it."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        told = _told(lambda: stacks.judge(case, Path(folder), setting.seed))
        wall_s = time.monotonic() - start
    return _result(case, told, wall_s, None, "judges functions alone")


def run_callable(case: Case, setting: Setting) -> Result:
    """Judge one case on a copy of its file, by the judge and by the naive checker."""
    python = setting.torch_python if case.torch and setting.torch_python else Path(sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        file = _copy(case, folder, "a")
        start = time.monotonic()
        told = _told(lambda: judge(case, setting, python, file))
        wall_s = time.monotonic() - start
        if case.unsafe or not setting.naive:
            return _result(case, told, wall_s, None, case.unsafe or "not asked for")
        env = {**scrubbed_environment(home=Path(folder)), **ONE_THREAD}
        verdict = naive.check(_copy(case, folder, "b"), python, env)
    return _result(case, told, wall_s, verdict, verdict.why)


@dataclass(frozen=True, slots=True)
class Told:
    """What the judge said of a case."""

    verdict: str
    reason: str
    detail: str
    gain: float | None = None


def _told(judged: Callable[[], JudgeReport]) -> Told:
    """Return what the judge says; an error of its own is told as "broke"."""
    try:
        report = judged()
    except FvecError as error:
        return Told("broke", type(error).__name__, str(error))
    gain = report.end_to_end.throughput_ratio if report.end_to_end else None
    return Told(report.verdict, report.reason, report.detail, gain)


def _result(
    case: Case | StackCase,
    told: Told,
    wall_s: float,
    verdict: naive.NaiveVerdict | None,
    why: str,
) -> Result:
    """Return one row; `verdict` None: the naive checker did not run, and `why`."""
    return Result(
        corpus=case.corpus,
        name=case.name,
        layer=case.layer,
        change_class=case.change_class,
        summary=case.summary,
        expect=case.expect,
        verdict=told.verdict,
        reason=told.reason,
        detail=told.detail,
        gain=told.gain,
        wall_s=wall_s,
        naive_accepts=verdict.accepted if verdict else None,
        naive_why=why,
        naive_speedup=verdict.speedup if verdict else None,
    )


def _copy(case: Case, folder: str, place: str) -> Path:
    """Copy the file of a case to a place of its own: it may rewrite itself."""
    target = Path(folder) / place / FILE
    target.parent.mkdir()
    for name, size in case.beside:
        with (target.parent / name).open("xb") as file:
            file.write(os.urandom(size))
            os.fsync(file.fileno())  # only what is written out can be dropped from memory
    return shutil.copyfile(case.path, target)


def judge(case: Case, setting: Setting, python: Path, file: Path) -> JudgeReport:
    """Judge one case's copy; raises what the judge raises."""
    options = CallableOptions(
        reference=f"{file}:ref",
        candidate=f"{file}:new",
        inputs=f"{file}:make",
        change_class=case.change_class,
        referee=f"{file}:referee" if case.has_referee else None,
        metric=f"{file}:metric" if case.has_metric else None,
        margin=case.margin,
        python=python,
        seed=setting.seed,
        sandbox=SandboxSection(mode=setting.mode, memory_gib=MEMORY_GIB, processes=PROCESSES),
    )
    return judge_callable(options, Silent())


def run(chosen: Sequence[Case | StackCase], setting: Setting) -> list[Result]:
    """Run cases one after the other, so that none is measured beside another."""
    results = []
    for number, case in enumerate(chosen, start=1):
        if not runnable(case, setting):
            sys.stderr.write(f"left out: {case.name} needs torch or the strict sandbox\n")
            continue
        result = run_case(case, setting)
        results.append(result)
        sys.stderr.write(
            f"[{number}/{len(chosen)}] {result.outcome:17}{case.corpus}/{case.name}: "
            f"{result.reason} ({result.wall_s:.1f} s)\n"
        )
    return results


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Judge the must-reject and must-accept corpus.")
    parser.add_argument("words", nargs="*", help="parts of the names of cases; default: all")
    parser.add_argument("--corpus", choices=("reject", "accept"))
    parser.add_argument("--layer", choices=LAYERS)
    parser.add_argument("--mode", type=SandboxMode, default=SandboxMode.STRICT)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-naive", dest="naive", action="store_false")
    parser.add_argument("--no-stack", dest="stack", action="store_false", help="callables alone")
    parser.add_argument("--out", type=Path, default=ROOT / ".fvec" / "corpus")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line asks for and print the table."""
    args = _arguments(argv)
    setting = Setting(args.mode, args.seed, python_with_torch(), args.naive)
    start = time.monotonic()
    chosen = choose(args.words, args.corpus, args.layer, stack=args.stack)
    results = run(chosen, setting)
    wall_s = time.monotonic() - start
    summary.write(args.out, results, wall_s)
    sys.stdout.write(summary.text(results, wall_s))
    return 0 if results and summary.passed(results) else 1


if __name__ == "__main__":
    sys.exit(main())

"""The measured table of the README, from a run's own results: `table.py .fvec/demo/run.json`.

Every number comes from `run.json` and the evidence of its pull requests.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from bot.publishing.local import FORGE_FOLDER
from bot.render import numbers
from bot.render.context import why_line
from bot.render.markdown import table
from bot.render.text import code, inline
from layers.errors import FvecError, InvalidInput, Location
from layers.evidence import (
    EvidenceFile,
    Interval,
    Iteration,
    Noise,
    NoiseFloor,
    RunReport,
    SustainedArm,
    Total,
    Verdict,
)

Loaded = TypeVar("Loaded", RunReport, EvidenceFile)

# What a noise floor counts its sample in; `layers.trial.calibrate` and `layers.trial.total` make them.
SAMPLED_IN = {"work": "pairs of blocks", "sustained": "windows", "tail": "segments"}


def main(argv: list[str]) -> int:
    """Print the table of the `run.json` that is named; return the exit code."""
    if len(argv) != 1:
        sys.stderr.write("usage: table.py RUN.json\n")
        return 2
    try:
        sys.stdout.write(render(*read(Path(argv[0]))) + "\n")
    except FvecError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


def read(path: Path) -> tuple[RunReport, dict[int, EvidenceFile]]:
    """Return a run and, by iteration, the evidence of its pull requests in the local forge.

    The forge lies beside `path`. Raises InvalidInput for a file that is missing or is no evidence,
    and for evidence that tells of another run or other numbers than `path` does.
    """
    report = _load(path, RunReport)
    evidence: dict[int, EvidenceFile] = {}
    for pull in report.pull_requests:
        if pull.forge != "local":
            continue
        file = path.parent / FORGE_FOLDER / "pulls" / str(pull.number) / "evidence.json"
        found = _load(file, EvidenceFile)
        if found.run_id != report.run_id or found.iteration not in report.iterations:
            raise InvalidInput(
                f"does not belong to run {report.run_id}",
                at=Location(file),
                hint="a later run used the same folder: run again with --out on an empty one",
            )
        evidence[found.iteration.n] = found
    return report, evidence


def _load(path: Path, model: type[Loaded]) -> Loaded:
    """Return a file of evidence; raises InvalidInput with place and reason."""
    hint = "make it with: fvec run PATH --out DIR"
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidInput(str(error.strerror), at=Location(path), hint=hint) from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the document"
        raise InvalidInput(f"{place}: {first['msg']}", at=Location(path), hint=hint) from error


def render(report: RunReport, evidence: Mapping[int, EvidenceFile]) -> str:
    """Return the whole table as markdown; `evidence` is by iteration and may lack some."""
    parts = [
        inline(report.conclusion),
        _whole_run(report.total) if report.total else "",
        _accepted(report, evidence),
        _noise(report.noise) if report.noise else "",
        _refused(report),
        _ground(report),
    ]
    return "\n\n".join(part for part in parts if part)


def _whole_run(total: Total) -> str:
    """Compare the end with the start, measured beside each other."""
    slo = numbers.setting(total.slo_p99_ms)
    arms = (total.start, total.end)
    windows = " and ".join(_windows(arm) for arm in arms)
    held = [numbers.times_between(total.throughput_ratio, total.ci), *map(_held, arms), windows]
    rows = [[f"sustained rate at p99 at most {slo} ms, open loop", *held]]
    absent = [numbers.ABSENT] * 2
    if total.p99_ratio is not None and total.p99_rate is not None:
        name = f"p99 at {numbers.per_second(total.p99_rate)}, which the start surely sustains"
        rows.append(
            [
                name,
                _ratio(total.p99_ratio, total.p99_ci),
                *_ms(total.p99_ms),
                _n(total.p99_requests, "requests an arm"),
            ]
        )
    if total.cpu_ratio is not None:
        rows.append(
            [
                "server CPU per request",
                _ratio(total.cpu_ratio, total.cpu_ci),
                *absent,
                _n(total.cpu_pairs, "pairs"),
            ]
        )
    head = ["**whole run**", "better by (95 % interval)", "start", "end", "n"]
    return table(head, rows, right="lrrrr")


def _ms(pair: tuple[float, float] | None) -> list[str]:
    return [numbers.ms(value) for value in pair] if pair else [numbers.ABSENT] * 2


def _n(count: int | None, unit: str) -> str:
    return numbers.ABSENT if count is None else f"{numbers.count(count)} {unit}"


def _accepted(report: RunReport, evidence: Mapping[int, EvidenceFile]) -> str:
    """List the accepted changes, each against the commit that it was made on."""
    numbered = {n: pull.number for pull in report.pull_requests for n in pull.iterations}
    rows = [
        [
            f"{inline(iteration.hypothesis.title, 100)} ({iteration.hypothesis.change_class})",
            *_gains(iteration),
            _sample(iteration, evidence.get(iteration.n)),
            str(numbered.get(iteration.n, numbers.ABSENT)),
        ]
        for iteration in report.iterations
        if iteration.verdict is Verdict.ACCEPTED
    ]
    head = ["**accepted change** (class)", "only the part, local", "throughput, end to end"]
    head += ["server CPU per request", "p99 at the recorded rate", "n", "pull request"]
    return table(head, rows, right="lrrrrrr") if rows else "No change was accepted."


def _gains(iteration: Iteration) -> list[str]:
    """Return local, throughput, CPU and p99 ratio, each with its interval; above 1 is better."""
    local, end, test = iteration.local, iteration.end_to_end, iteration.load_test
    return [
        f"{_ratio(local.speedup, local.ci)}: {inline(local.what, 120)}"
        if local
        else numbers.ABSENT,
        _ratio(end.throughput_ratio, end.ci) if end else numbers.ABSENT,
        _ratio(end.cpu_ratio, end.cpu_ci) if end else numbers.ABSENT,
        _ratio(test.p99_ratio, test.p99_ci) if test else numbers.ABSENT,
    ]


def _sample(iteration: Iteration, evidence: EvidenceFile | None) -> str:
    """Say what each ratio rests on, in the order of the columns."""
    parts = [f"local: {numbers.count(iteration.local.n)}"] if iteration.local else []
    if iteration.end_to_end:
        pairs = f"throughput, CPU: {iteration.end_to_end.pairs} pairs"
        parts.append(f"{pairs}{_requests(iteration, evidence) if evidence else ''}")
    if iteration.load_test:
        parts.append(
            f"p99: {numbers.count(iteration.load_test.candidate.requests)} requests an arm"
        )
    return "; ".join(parts)


def _requests(iteration: Iteration, evidence: EvidenceFile) -> str:
    """Say how many requests an arm answered in the confirming pairs."""
    confirming = {(pair.launch, pair.pair) for pair in iteration.confirm}
    blocks = [
        b for b in evidence.blocks if (b.launch, b.pair) in confirming and b.measure == "work"
    ]
    completed = sum(block.completed for block in blocks if block.arm == "candidate")
    return f", {numbers.count(completed)} requests an arm"


def _noise(noise: Noise) -> str:
    """List what the unmodified stack differs by from itself."""
    rows = []
    for name, unit in SAMPLED_IN.items():
        floor: NoiseFloor | None = getattr(noise, name)
        if floor:
            sample = f"{numbers.count(floor.pairs)} {unit}, {_launches(floor.launches)}"
            rows.append([name, numbers.points(floor.floor_pct), sample])
    return table(["**noise floor**", "95 % half-width", "n"], rows, right="lrr")


def _refused(report: RunReport) -> str:
    """List what was tried and not accepted, with the reason."""
    rows = [
        [inline(i.hypothesis.title, 100), str(i.layer), str(i.verdict), why_line(i)]
        for i in report.iterations
        if i.verdict is not Verdict.ACCEPTED
    ]
    return table(["**not accepted**", "layer", "verdict", "why"], rows) if rows else ""


def _ground(report: RunReport) -> str:
    """Say on what machine, on which stack and how long the run was."""
    machine, stack = report.environment, report.stack
    return (
        f"Measured on {inline(machine.cpu)}, {machine.cores} cores, "
        f"{numbers.number(machine.memory_gib)} GiB, {inline(machine.kernel)}; "
        f"{inline(machine.server)}, Python {inline(machine.python)}. "
        f"Stack {code(stack.name)} at {code(numbers.short(stack.commit))}, "
        f"{numbers.count(stack.requests)} recorded requests at "
        f"{numbers.per_second(stack.recorded_rate)}; seed {report.seed}; "
        f"{numbers.count(report.blocks_void)} void blocks; "
        f"{numbers.count(len(report.not_tried))} hypotheses not tried (reasons in the report); "
        f"wall time {numbers.duration(report.wall_s)}."
    )


def _ratio(ratio: float | None, ci: Interval | None) -> str:
    if ratio is None:
        return numbers.ABSENT
    return numbers.times_between(ratio, ci) if ci else numbers.times(ratio)


def _held(arm: SustainedArm) -> str:
    return f"{numbers.per_second(arm.rate)} ({numbers.between(arm.ci, arm.rate)})"


def _windows(arm: SustainedArm) -> str:
    return f"{arm.windows} windows ({arm.void_windows} void)"


def _launches(launches: int) -> str:
    return "1 launch" if launches == 1 else f"{launches} launches"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

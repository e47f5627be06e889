"""The program that measures, started without a credential, and what it leaves.

`fvec run`, `verify` or `judge` is a process of its own: it gets argv, files and an environment that
is an allow-list. What it leaves is read as outside input: sizes are bounded, models are strict, and
the report has to be about the patch that was asked about.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from bot.jobs import manifests, processes
from bot.jobs.context import Stopped, Superseded, own_program
from layers.errors import (
    FvecError,
    Inconclusive,
    InvalidInput,
    Location,
    Missing,
    ToolFailed,
)
from layers.evidence import JudgeReport, RunReport, VerifyReport
from layers.manifest import MANIFEST_PATH, measured_paths
from layers.programs import describe_log
from layers.record import plain_file
from layers.repository import git
from layers.triton.environment import pip_environment

if TYPE_CHECKING:
    from bot.jobs.context import Context

Program = Literal["run", "verify", "judge"]
EVIDENCE, PATCH = "evidence.json", "patch.diff"
LOCK = "measuring.lock"  # of the folder of all repositories: one measurement at a time
ERROR = "error.json"  # of a program that ended by an error, beside its results
Model = TypeVar("Model", bound=BaseModel)
MOST_REPORT_BYTES = 64 * 2**20
MOST_ERROR_BYTES = MOST_MANIFEST_BYTES = 2**20
MOST_S = 26 * 3600.0  # a manifest's budget is 24 h at most
POLL_S = 1.0
# Packages are named by the repository: what is built from source runs what it likes.
_WHEELS_ALONE = {"PIP_ONLY_BINARY": ":all:"}
_SERVER = "model server"  # the check of `fvec doctor` that installs
_KEPT = (  # of our environment: what programs, caches and accelerators are found by
    *("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"),
    *("XDG_RUNTIME_DIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"),
)
_ERRORS: Mapping[int, type[FvecError]] = {3: InvalidInput, 4: Missing, 5: Inconclusive}


@dataclass(frozen=True, slots=True)
class Measurement:
    """What is to be measured; `sha` is checked out, `inputs` are files that the program reads."""

    program: Program
    sha: str
    layers: tuple[str, ...] = ()
    change_class: str | None = None
    inputs: Mapping[str, bytes] = field(default_factory=dict)

    def argv(self, checkout: Path, inputs: Path, out: Path) -> list[str]:
        """Return the arguments of `fvec`."""
        kept = ["--json", "--out", str(out)]
        match self.program:
            case "run":
                layers = [part for name in self.layers for part in ("--layer", name)]
                return ["run", str(checkout), "--resume", *kept, *layers]
            case "verify":
                return ["verify", str(inputs / EVIDENCE), "--stack", str(checkout), *kept]
            case "judge":
                class_ = ["--class", self.change_class] if self.change_class else []
                return ["judge", str(checkout), "--patch", str(inputs / PATCH), *class_, *kept]

    def write(self, folder: Path) -> None:
        """Write the inputs to `folder`, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.inputs.items():
            (folder / name).write_bytes(content)


def environment() -> dict[str, str]:
    """Return the environment of a program that measures: nothing but what is named here."""
    return {name: os.environ[name] for name in _KEPT if name in os.environ}


def measure(context: Context, wanted: Measurement, checkout: Path) -> Path:
    """Have `wanted` measured in `checkout`; return the folder of the results.

    What was measured before a kill is not measured again. Raises Superseded or Stopped when the
    job is to end, and the error that the program itself ended by.
    """
    folder = context.folder
    out = folder / "results"
    processes.end_left(folder / "pid")
    if wanted.program != "run" and report_file(out, wanted.program).is_file():
        return out
    wanted.write(folder / "inputs")
    program = list(context.fvec or own_program())
    argv = [*program, *wanted.argv(checkout, folder / "inputs", out)]
    told, log = folder / "stdout.json", folder / "measuring.log"
    processes.end_orphans(context.work)
    with processes.alone(context.work / LOCK, lambda: _check(context)) as held:
        _install(context, [*program, "doctor", str(checkout), "--install", "--json"], checkout)
        context.events.phase("measure", f"fvec {wanted.program} at {wanted.sha[:12]}")
        code = _run(context, argv, told, log, environment(), held)
    if not report_file(out, wanted.program).is_file() or code not in _ends(wanted.program):
        raise failure(told, code, log)
    return out


def _install(context: Context, argv: Sequence[str], checkout: Path) -> None:
    """Install the model server's environment that a stack needs, where this machine lacks it.

    Raises Missing, with what `fvec doctor` says, where that cannot be done, and InvalidInput for
    models that are not in the checkout.
    """
    try:
        manifest = manifests.parse(content(checkout / MANIFEST_PATH, MOST_MANIFEST_BYTES))
    except (InvalidInput, OSError):
        return  # the program that measures says what is wrong with it
    git.check_whole(checkout, *measured_paths(manifest))
    if manifest.server.address is not None:
        return
    told, log = context.folder / "doctor.json", context.folder / "doctor.log"
    env = {**environment(), **_WHEELS_ALONE, **pip_environment()}
    code = _run(context, argv, told, log, env)
    try:
        checks = json.loads(content(told, MOST_ERROR_BYTES))["checks"]
        server = next(one for one in checks if one["name"] == _SERVER)
        ok, detail, fix = bool(server["ok"]), str(server["detail"]), str(server["fix"])
    except (FvecError, StopIteration, ValueError, KeyError, TypeError, RecursionError):
        raise failure(told, code, log) from None
    if not ok:
        raise Missing(f"the model server cannot be set up: {detail}", hint=fix)


def report_file(results: Path, program: Program) -> Path:
    """Return where a program leaves its report."""
    return results / f"{program}.json"


def run_report(results: Path) -> RunReport:
    """Return what `fvec run` left; the error that it ended by, InvalidInput where it is no report."""
    _check_ended(results, "run")
    return _read(report_file(results, "run"), RunReport)


def judgement(results: Path, program: Program, patch: bytes) -> VerifyReport | JudgeReport:
    """Return what `fvec verify` or `judge` left about `patch`.

    Raises the error that the program ended by, and InvalidInput for a report that is none, or that
    is about another patch.
    """
    _check_ended(results, program)
    found: VerifyReport | JudgeReport
    if program == "verify":
        found = _read(report_file(results, program), VerifyReport)
        judged = found.judged
    else:
        found = judged = _read(report_file(results, program), JudgeReport)
    if judged.patch_sha256 != hashlib.sha256(patch).hexdigest():
        raise InvalidInput(
            "the report is about another patch than the one that was asked about",
            hint="the results of another job were handed over: ask again",
        )
    return found


def _check_ended(results: Path, program: Program) -> None:
    """Raise the error that a program ended by, where it left that in place of a report."""
    error = results / ERROR
    if not report_file(results, program).is_file() and error.is_file():
        raise failure(error, None, error)


def _read(path: Path, model: type[Model]) -> Model:
    """Return a plain file of bounded size as a strict model."""
    try:
        return model.model_validate_json(content(path, MOST_REPORT_BYTES))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the document"
        raise InvalidInput(
            f"not a report of fvec: {place}: {first['msg']}", at=Location(Path(path.name))
        ) from None


def content(path: Path, most: int) -> bytes:
    """Return a plain file of bounded size; InvalidInput, with its name alone, for anything else."""
    return plain_file.read(path, most, at=Path(path.name))


def _run(
    context: Context,
    argv: Sequence[str],
    told: Path,
    log: Path,
    env: Mapping[str, str],
    *kept_open: int,
) -> int:
    """Run a program until it ends, or is to end; return its exit code."""
    deadline = time.monotonic() + MOST_S
    with told.open("wb") as output, log.open("ab") as errors:
        try:
            process = subprocess.Popen(
                list(argv),
                cwd=told.parent,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
                pass_fds=kept_open,
            )
        except OSError as error:
            raise ToolFailed(f"{argv[0]} could not be started: {error.strerror}") from error
        pid_file = told.with_name("pid")
        try:
            processes.note(pid_file, process.pid)
            while True:
                with suppress(subprocess.TimeoutExpired):
                    return process.wait(POLL_S)
                _check(context)
                if time.monotonic() > deadline:
                    told_by = describe_log(log)
                    raise ToolFailed(f"it measured longer than {MOST_S / 3600:g} h\n{told_by}")
        finally:
            processes.end(process)
            pid_file.unlink(missing_ok=True)


def _check(context: Context) -> None:
    """Raise where the job is to end now."""
    reason = context.stopping()
    if reason == "superseded":
        raise Superseded("another commit is to be measured now")
    if reason == "stopping":
        raise Stopped


def _ends(program: Program) -> frozenset[int]:
    """Return the exit codes of a program that came to a result; 70 is a verdict `failed` too."""
    return frozenset({0}) if program == "run" else frozenset({0, 1, 5, 70})


def failure(told: Path, code: int | None, log: Path) -> FvecError:
    """Return the error that a program told, or what can be said where it told none."""
    try:
        document = json.loads(content(told, MOST_ERROR_BYTES))
        error = document["error"]
        message, hint, kind = error["message"], error["hint"], document["exit_code"]
    except (FvecError, ValueError, KeyError, TypeError, RecursionError):
        how = "left no report" if code is None else f"ended with exit code {code}"
        return ToolFailed(f"the program that measures {how}\n{describe_log(log)}")
    named = _ERRORS.get(kind, ToolFailed) if isinstance(kind, int) else ToolFailed
    return named(str(message), hint=str(hint) if hint else None)

"""Tries every codemod on a folder of public programs: found, rewritten, exact, faster, or why not.

    python -m tests.foreign.runner FOLDER [WORD...] [--python INTERPRETER] [--out DIRECTORY]

FOLDER holds one folder a program: `model.py`, `config.pbtxt`, `helpers/` and, where a person wrote
what it needs to start, `prepare_for_test.py`. WORDs choose programs whose names begin with one.
INTERPRETER is one that has the packages which the programs import. The programs are strangers':
they run in a sandbox without a network. Exit code 1 when a codemod crashed or changed an answer.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from layers.errors import ToolFailed
from layers.features.codemods.table import CODEMODS
from layers.manifest import SandboxMode, SandboxSection
from layers.programs import ONE_THREAD, Command, scrubbed_environment
from layers.sandbox.base import Confinement
from layers.sandbox.box import Sandbox
from layers.sandbox.run import run_logged
from tests.foreign import programs, summary

HERE = Path(__file__).parent
TESTS = HERE.parent
TOGETHER = "all together"
MEMORY_GIB, PROCESSES = 4.0, 256


def main(argv: Sequence[str] | None = None) -> int:
    """Run; see the head of this file."""
    options = _options(argv)
    section = SandboxSection(mode=SandboxMode.NO_CGROUP, memory_gib=MEMORY_GIB, processes=PROCESSES)
    sandbox = Sandbox.open(section)
    rows: list[dict[str, Any]] = []
    for folder in sorted(path.parent for path in options.folder.glob("*/model.py")):
        if options.words and not folder.name.startswith(tuple(options.words)):
            continue
        found = examine(folder, sandbox, options)
        rows += found
        sys.stdout.write("".join(f"{summary.line(row)}\n" for row in found))
        sys.stdout.flush()
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "rows.json").write_text(json.dumps(rows, indent=1))
        (options.out / "table.md").write_text(summary.table(rows) + "\n")
    return 1 if any(summary.is_wrong(row) for row in rows) else 0


def examine(folder: Path, sandbox: Sandbox, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return one row per codemod that found anything in the program, and one for all together."""
    program = programs.load(folder)
    chosen = {name: c for name, c in CODEMODS.items() if options.only in ("", name)}
    answers = programs.answers(program, chosen)
    changed = {a.codemod: a.files for a in answers if a.files}
    if len(changed) > 1:
        changed[TOGETHER] = programs.together(program, chosen)
    result = differential(program, changed, sandbox, options) if not options.find_only else {}
    rows = [
        _row(program.name, answer, result) for answer in answers if answer.places or answer.reasons
        or answer.complaint
    ]  # fmt: skip
    if TOGETHER in changed:
        both = programs.Answer(TOGETHER, [], [], changed[TOGETHER])
        rows.append(_row(program.name, both, result))
    return rows or [_row(program.name, programs.Answer("", [], []), result)]


def differential(
    program: programs.Program,
    changed: Mapping[str, Mapping[str, str]],
    sandbox: Sandbox,
    options: argparse.Namespace,
) -> dict[str, Any]:
    """Run the versions side by side in the sandbox; `failed` says why they do not run."""
    with tempfile.TemporaryDirectory(prefix="foreign-") as name:
        work = Path(name)
        versions = {"original": work / "repository_original" / "model"}
        for number, version in enumerate(changed):
            versions[version] = work / f"repository_{number}" / "model"
        for version, folder in versions.items():
            folder.parent.mkdir()
            programs.write(program, changed.get(version, {}), folder)
        job = programs.job(
            program, versions,
            stubs=str(HERE / "stubs"), requests=options.requests, pairs=options.pairs,
            seed=options.seed, result=str(work / "result.json"),
        )  # fmt: skip
        (work / "job.json").write_text(job)
        return _confined(program, work, sandbox, options.python)


def _confined(
    program: programs.Program, work: Path, sandbox: Sandbox, python: Path
) -> dict[str, Any]:
    argv = [str(python), "-B", str(HERE / "child.py"), str(work / "job.json")]
    environment = scrubbed_environment(home=work) | ONE_THREAD
    # The interpreter's environment is shown at its own path, or nothing of it could be imported.
    seen = [TESTS, python.parent.parent, program.folder]
    confinement = Confinement(seen, [work], sandbox.limits)
    command = Command(argv, work, environment, timeout_s=600)
    try:
        run_logged(sandbox, command, work / "log", program.name, confinement)
        found: dict[str, Any] = json.loads((work / "result.json").read_text())
    except (ToolFailed, OSError, ValueError) as error:
        return {"failed": f"{type(error).__name__}: {str(error)[-600:]}"}
    return found


def _row(name: str, answer: programs.Answer, result: Mapping[str, Any]) -> dict[str, Any]:
    compared = result.get("compared", {}).get(answer.codemod)
    original = result.get("compared", {}).get("original", {})
    return {
        "program": name,
        "codemod": answer.codemod,
        "places": list(answer.places),
        "reasons": list(answer.reasons),
        "rewritten": bool(answer.files),
        "complaint": answer.complaint,
        "failed": result.get("failed", ""),
        "compared": compared,
        "original": {key: original.get(key) for key in ("raised", "unsteady")},
        "timed": result.get("timed", {}).get(answer.codemod, {}),
    }


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--only", default="", help="one codemod")
    parser.add_argument("--find-only", action="store_true", help="run nothing")
    parser.add_argument("--requests", type=int, default=240)
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

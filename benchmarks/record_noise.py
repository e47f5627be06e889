"""Judge patches that change nothing, and keep every launch: `make record-noise`.

Each patch puts a comment or an empty line somewhere into a copy of examples/ads-serving and is
judged like any other. One judgement is one fsynced line, so the recorder may be ended at any point
and goes on where it was. An accepted patch is a false accept; the replay in the tests holds the
rule to that, and `layers.measure.resample` draws runs of ten from the launches.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import numpy as np

from bot.progress import Lines
from layers.errors import FvecError, ToolFailed
from layers.evidence import Verdict
from layers.judge import PLAN, JudgeOptions, Judging, judging
from layers.measure.recordings import RecordedLaunch, Recording, line, read, recording
from layers.repository.git import git, resolve
from layers.triton.pbtxt.document import parse

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples" / "ads-serving"
OUT = ROOT / "tests" / "data" / "recorded" / "ads_noop.jsonl"
WORK = ROOT / ".fvec" / "recorded"
PATCHES = 60
PER_SESSION = 10  # as many candidates as a run may try after one calibration
SEED = 60
STAMP = "2026-01-01T00:00:00Z"  # of the copy's commit: the same commit on every machine
SUBJECTS = ("models/*/1/*.py", "models/*/config.pbtxt")
BUILT_FROM = "schema.py"  # the traffic is made from it: a change would record all of it again


@dataclass(frozen=True, slots=True)
class NoOp:
    """A patch that changes a file and nothing else."""

    what: str
    file: str
    text: str  # the file with it

    def diff(self, root: Path) -> bytes:
        """Return it as git writes it; the checkout at `root` is as before afterwards."""
        target = root / self.file
        before = target.read_bytes()
        try:
            target.write_text(self.text, encoding="utf-8")
            return git(root, "diff", "--no-color", "--no-ext-diff", "--", self.file).encode()
        finally:
            target.write_bytes(before)


def no_ops(root: Path, count: int, seed: int) -> list[NoOp]:
    """Return `count` different patches of the files of a stack, each proved to change nothing.

    Raises ToolFailed where one would change what a file says.
    """
    rng = np.random.default_rng(seed)
    paths = [p for glob in SUBJECTS for p in root.glob(glob) if p.name != BUILT_FROM]
    files = sorted(str(path.relative_to(root)) for path in paths)
    places = {file: _places(root / file) for file in files}
    found: dict[str, NoOp] = {}
    while len(found) < count:
        number = len(found)
        file = files[number % len(files)]
        before = (root / file).read_text(encoding="utf-8")
        at = int(rng.choice(places[file]))
        added = "" if number % 3 == 2 else f"# no-op {number + 1}"
        patch = NoOp(
            f"{'an empty line' if not added else 'a comment'} before line {at + 1} of {file}",
            file,
            _with_line(before, at, added),
        )
        if not _same(Path(file), before, patch.text):
            raise ToolFailed(f"{patch.what} is no no-op")
        found.setdefault(hashlib.sha256(patch.text.encode()).hexdigest(), patch)
    return list(found.values())


def _places(path: Path) -> list[int]:
    """Return the lines, from 0, before which a line may be put: where a statement begins."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return sorted({x.lineno - 1 for x in ast.walk(ast.parse(text)) if isinstance(x, ast.stmt)})
    return list(range(len(text.splitlines())))


def _with_line(text: str, at: int, added: str) -> str:
    lines = text.splitlines(keepends=True)
    return "".join([*lines[:at], f"{added}\n", *lines[at:]])


def _same(path: Path, before: str, after: str) -> bool:
    """Whether two texts of a file say the same, and are not the same text."""
    if before == after:
        return False
    if path.suffix == ".py":
        return ast.dump(ast.parse(before)) == ast.dump(ast.parse(after))
    return bool(parse(before, path).message == parse(after, path).message)


def checkout(work: Path) -> Path:
    """Return a clean copy of the example as a repository of its own, made once."""
    root = work / "ads-serving"
    if not (root / ".git").exists():
        copy_example(root)
        git(root, "init", "--quiet", "--initial-branch=main")
        commit_all(root, "Serve ads")
    _cleared(root)
    return root


def copy_example(root: Path) -> None:
    """Make `root` hold what git tracks of the example, and nothing else."""
    shutil.rmtree(root, ignore_errors=True)
    folder = EXAMPLE.relative_to(ROOT)
    for name in filter(None, git(ROOT, "ls-files", "-z", "--", str(folder)).split("\0")):
        target = root / Path(name).relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)


def commit_all(root: Path, message: str) -> str:
    """Commit what is there, the same commit on every machine; return it."""
    git(root, "add", "--all")
    dates = {"GIT_AUTHOR_DATE": STAMP, "GIT_COMMITTER_DATE": STAMP}
    git(root, "commit", "--quiet", "--message", message, env=dates)
    return resolve(root, "HEAD")


def _cleared(root: Path) -> None:
    """Take away what a judgement that was ended left: edits, worktrees, branches."""
    git(root, "reset", "--hard", "--quiet", "main")
    git(root, "worktree", "prune")
    left = git(root, "for-each-ref", "--format=%(refname:short)", "refs/heads/fvec/")
    for branch in left.split():
        git(root, "branch", "--quiet", "-D", branch)


def resumed(out: Path) -> list[Recording]:
    """Return what is recorded already; a last line that was cut off is taken away."""
    if not out.exists():
        return []
    whole = out.read_bytes()
    kept = whole[: whole.rfind(b"\n") + 1]
    if kept != whole:
        with out.open("r+b") as file:
            file.truncate(len(kept))
            os.fsync(file.fileno())
    return read(out)


def append(out: Path, found: Recording) -> None:
    """Add one line, and return when it is on the disk."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a", encoding="utf-8") as file:
        file.write(line(found) + "\n")
        file.flush()
        os.fsync(file.fileno())


def record(
    patches: Sequence[tuple[NoOp, bytes]],
    out: Path,
    judge: Callable[[int, NoOp, bytes], Recording],
) -> Iterator[Recording]:
    """Judge what is not recorded yet, in order; each is on the disk when it is returned.

    Where the tool broke nothing was judged: that is returned, not recorded, and tried again later.
    """
    done = {found.patch_sha256 for found in resumed(out)}
    for number, (patch, diff) in enumerate(patches, 1):
        if hashlib.sha256(diff).hexdigest() not in done:
            found = judge(number, patch, diff)
            if found.verdict is not Verdict.FAILED:
                append(out, found)
            yield found


def main(argv: Sequence[str]) -> int:
    """Record; return the exit code."""
    parser = argparse.ArgumentParser(prog="record_noise.py", description=__doc__)
    parser.add_argument("--out", type=Path, default=OUT, help="JSON lines, appended to")
    parser.add_argument("--work", type=Path, default=WORK, help="where the copy is judged")
    parser.add_argument("--patches", type=int, default=PATCHES)
    options = parser.parse_args(argv)
    try:
        _record(options.out, options.work, options.patches)
    except FvecError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    except KeyboardInterrupt:
        sys.stderr.write("ended; run it again to go on\n")
        return 130
    return 0


def _record(out: Path, work: Path, count: int) -> None:
    root = checkout(work)
    patches = [(patch, patch.diff(root)) for patch in no_ops(root, count, SEED)]
    while True:
        started = len(resumed(out))
        if started >= count or not _session(root, patches, out, work):
            break
    every = resumed(out)
    accepted = sum(found.verdict is Verdict.ACCEPTED for found in every)
    sys.stdout.write(f"{len(every)} of {count} recorded, {accepted} accepted\n")


def _session(root: Path, patches: Sequence[tuple[NoOp, bytes]], out: Path, work: Path) -> int:
    """Judge up to `PER_SESSION` patches after one calibration; return how many were recorded."""
    seed = secrets.randbits(31)
    options, events = JudgeOptions(work / "out", seed=seed), Lines(sys.stderr)
    recorded = 0
    with judging(root, options, events) as opened:
        session = Session(opened, f"{seed:08x}")
        for found in islice(record(patches, out, session.judge), PER_SESSION):
            looks = f"{len(found.looks)} looks, " if found.looks else ""
            sys.stdout.write(
                f"{found.patch}: {found.verdict} ({found.reason}), {looks}{found.wall_s:.0f} s\n"
            )
            sys.stdout.flush()
            recorded += found.verdict is not Verdict.FAILED
    return recorded


class Session:
    """Judgements that share one calibration, whose A/A launches go with the first recorded."""

    def __init__(self, opened: Judging, name: str) -> None:
        """`name` is written beside every judgement."""
        self._opened, self._name = opened, name
        self._calibrated = False
        self._noise: list[RecordedLaunch] = []  # measured, and with no judgement recorded yet

    def judge(self, number: int, patch: NoOp, diff: bytes) -> Recording:
        """Judge one patch."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        report = self._opened.judge(f"no-op {number}", diff, None)
        first = report.noise is not None and not self._calibrated
        self._calibrated |= first
        found = recording(
            report,
            patch.what,
            candidates=PLAN.candidates,
            session=self._name,
            calibrated=first,
            recorded_at=at,
        )
        launches = [*self._noise, *found.launches]
        failed = found.verdict is Verdict.FAILED
        self._noise = [x for x in launches if x.kind == "noise"] if failed else []
        return found.model_copy(update={"launches": launches})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

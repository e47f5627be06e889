"""One profile of the live stack: py-spy on every model process while the caller's load runs.

Shares are of CPU seconds, not of samples. A sample of a model process is worth
1 / SAMPLES_PER_SECOND, and what the process burned beyond its samples (the server's own C++
inside it) is kept as the frame `OUTSIDE_PYTHON`, so that no Python line is credited with it.
py-spy drops idle threads by itself (it reads the thread's state), which is why no wait appears.
Measured: on a busy process samples and CPU time agree within 1 %; on one that sleeps between
bursts of 1 ms samples miss up to a sixth, so shares there err on the low side.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

import psutil

from layers.base import Hotspot, LayerName, Profile, StackView
from layers.errors import Missing, ToolFailed
from layers.profile.collapsed import Frame, Sampled, parse_collapsed
from layers.profile.phases import SERVER_MODULE as SERVER_MODULE
from layers.profile.phases import Phase, Roles, phase_of, roles_of

SAMPLES_PER_SECOND = 200
SERVER_PROCESS = "tritonserver"
OUTSIDE_PYTHON = "(outside Python)"
CONVERSION = "deserialize_bytes_tensor"  # the server's own Python, run before the model's code
LOOKUP = "get_input_tensor_by_name"  # the server's too, but only a model's code calls it
SMALLEST_SHARE = 0.0005  # hotspots below it are not kept
MAX_SOURCE_BYTES = 200_000  # of a model's file that is read for the roles of its lines
START_TIMEOUT_S = 30.0
LONGEST_S = 3600  # of a load; py-spy ends by itself then, so that it outlives no killed command


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """Where the stack's own files lie, and the roles of their lines by the names in the stacks."""

    root: Path
    roles: Mapping[str, Roles] = field(default_factory=dict)


class Profiled(Protocol):
    """What the profiler needs of a running deployment."""

    def pids(self) -> Mapping[str, int]:
        """Return the process id of each model's Python backend."""

    def cpu_seconds(self) -> Mapping[str, float]:
        """Return CPU seconds so far of the server ("tritonserver") and of each model process."""


def profile(
    deployment: Profiled,
    load_thunk: Callable[[], int],
    *,
    raw_dir: Path,
    stack: StackView,
) -> Profile:
    """Profile all processes of `deployment` while `load_thunk` runs its load.

    `load_thunk` returns the number of completed requests; sampling ends when it returns.
    `raw_dir` receives one file of collapsed stacks per model and their union, `Profile.raw`.

    `by_layer` says what each layer could touch: *features* is time under the stack's own
    files, in processes that have no torch; *graph* is the same in processes that do; *server*
    is the server process and its string conversion wherever it runs; *config* is everything.
    `by_phase` splits each model's process, see `layers.profile.phases`.

    Raises Missing when py-spy is absent or may not read the processes, ToolFailed when it breaks
    or ends before the load does: a part of a load would be taken for the whole.
    """
    raw_dir.mkdir(parents=True, exist_ok=True)
    pids = dict(deployment.pids())
    files = {model: raw_dir / f"{model}.collapsed" for model in pids}
    with _sampling(pids, files):
        before, sampled_before = deployment.cpu_seconds(), _cpu_seconds(pids)
        requests = load_thunk()
        after, sampled_after = deployment.cpu_seconds(), _cpu_seconds(pids)
    cpu_s = {name: max(0.0, after[name] - before.get(name, 0.0)) for name in after}
    sampled_s = {model: sampled_after[model] - sampled_before[model] for model in pids}
    stacks = {model: _read(files[model]) for model in pids}
    raw = raw_dir / "profile.collapsed"
    raw.write_text("".join(_merged(files)), encoding="utf-8")
    torch = {model for model, pid in pids.items() if _maps_torch(pid)}
    return summarise(
        stacks,
        cpu_s,
        sampled_s,
        requests=requests,
        torch=torch,
        own=OwnFiles(stack.root, _roles(stacks, stack.root)),
        raw=raw,
        tool=_tool(),
    )


def summarise(
    stacks: Mapping[str, Sequence[Sampled]],
    cpu_s: Mapping[str, float],
    sampled_s: Mapping[str, float],
    *,
    requests: int,
    torch: Iterable[str],
    own: OwnFiles,
    raw: Path,
    tool: str = "py-spy",
) -> Profile:
    """Turn sampled stacks and CPU seconds into a profile; reads and writes nothing.

    `cpu_s` is by process name, of all its instances; `sampled_s` is that of the one instance
    of each model that was sampled, which stands for the others.

    Hotspots come in three kinds: self time of a line; inclusive time of a line of the stack's
    own files (`inclusive`, the line's number); inclusive time of a function (`inclusive`,
    line 0). Each stack counts once per line and once per function, so recursion is not doubled.
    """
    total_s = sum(cpu_s.values())
    if total_s <= 0.0:
        raise ToolFailed("the server used no CPU while it was profiled", hint="did the load run?")
    shares = {name: used / total_s for name, used in cpu_s.items()}
    heavy = frozenset(torch)
    layers = dict.fromkeys((LayerName.FEATURES, LayerName.GRAPH), 0.0)
    layers |= {LayerName.SERVER: shares.get(SERVER_PROCESS, 0.0), LayerName.CONFIG: 1.0}
    hotspots: list[Hotspot] = []
    phases: dict[str, Mapping[str, float]] = {}
    for process, share in shares.items():
        tally = _Tally(process, own)
        for stack, weight in _weighted(stacks.get(process, ()), sampled_s.get(process, 0.0), share):
            tally.add(stack.frames, weight)
        hotspots += tally.hotspots(unseen=share - tally.seen)
        if process in stacks:
            phases[process] = tally.phases(share)
        layers[LayerName.SERVER] += tally.conversion
        layers[LayerName.GRAPH if process in heavy else LayerName.FEATURES] += tally.own
    hotspots.sort(key=lambda spot: (-spot.share, spot.process, spot.file, spot.line))
    by_layer = {name: min(1.0, share) for name, share in layers.items()}
    return Profile(tool, raw, total_s, requests, shares, by_layer, tuple(hotspots), phases)


class _Tally:
    """Sums of one process, by line and by function."""

    def __init__(self, process: str, own: OwnFiles) -> None:
        self._process = process
        self._root = own.root
        self._roles = own.roles
        self._phases = dict.fromkeys(Phase, 0.0)
        self._self: dict[Frame, float] = defaultdict(float)
        self._lines: dict[Frame, float] = defaultdict(float)
        self._functions: dict[tuple[str, str], float] = defaultdict(float)
        self.seen = 0.0
        self.own = 0.0
        self.conversion = 0.0

    def add(self, frames: Sequence[Frame], weight: float) -> None:
        """Count one stack that is worth `weight` of the total; an empty one stays unseen."""
        if not frames:
            return
        own = {frame for frame in frames if self._is_own(frame)}
        self.seen += weight
        self._phases[phase_of(frames, self._roles)] += weight
        self._self[frames[-1]] += weight
        for frame in own:
            self._lines[frame] += weight
        for function in {(frame.file, frame.function) for frame in frames}:
            self._functions[function] += weight
        if any(_is_server(frame, CONVERSION) for frame in frames):
            self.conversion += weight
        elif own:
            self.own += weight

    def phases(self, share: float) -> dict[str, float]:
        """Split the process's `share`; what no stack saw is the server's native code."""
        seen = self._phases | {Phase.OUTSIDE: self._phases[Phase.OUTSIDE] + share - self.seen}
        return {phase.value: min(1.0, max(0.0, part)) for phase, part in seen.items()}

    def hotspots(self, *, unseen: float) -> Iterator[Hotspot]:
        """Yield what was counted; `unseen` is the share spent outside Python frames."""
        for frame, share in self._self.items():
            yield self._hotspot(frame.file, frame.function, frame.line, share)
        for frame, share in self._lines.items():
            yield self._hotspot(frame.file, frame.function, frame.line, share, inclusive=True)
        for (file, function), share in self._functions.items():
            if share >= SMALLEST_SHARE:
                yield self._hotspot(file, function, 0, share, inclusive=True)
        if unseen >= SMALLEST_SHARE:
            yield Hotspot(self._process, "", OUTSIDE_PYTHON, 0, unseen)

    def _is_own(self, frame: Frame) -> bool:
        return _is_under(Path(frame.file), self._root)

    def _hotspot(
        self, file: str, function: str, line: int, share: float, *, inclusive: bool = False
    ) -> Hotspot:
        path = Path(file)
        if _is_under(path, self._root):
            file = str(path.relative_to(self._root))
        return Hotspot(self._process, file, function, line, min(1.0, share), inclusive)


def _roles(stacks: Mapping[str, Sequence[Sampled]], root: Path) -> dict[str, Roles]:
    """Read the roles of the lines of each sampled file of the stack; one not to be read has none."""
    sampled = {f.file for found in stacks.values() for stack in found for f in stack.frames}
    return {name: _roles_in(Path(name)) for name in sampled if _is_under(Path(name), root)}


def _roles_in(path: Path) -> Roles:
    try:
        if path.is_symlink() or path.stat().st_size > MAX_SOURCE_BYTES:
            return {}
        return roles_of(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return {}


def _is_under(path: Path, root: Path) -> bool:
    return path.is_absolute() and path.is_relative_to(root)


def _weighted(
    stacks: Sequence[Sampled], sampled_s: float, share: float
) -> Iterator[tuple[Sampled, float]]:
    """Yield each stack with its share of the total.

    A process that waited for a busy core while it was sampled shows more sample time than CPU
    time; its samples are then scaled down to the CPU time.
    """
    samples = sum(stack.count for stack in stacks)
    if not samples or sampled_s <= 0.0:
        return
    covered = min(1.0, samples / SAMPLES_PER_SECOND / sampled_s)
    for stack in stacks:
        yield stack, share * covered * stack.count / samples


def _is_server(frame: Frame, function: str) -> bool:
    return frame.function == function and Path(frame.file).name == SERVER_MODULE


def _read(path: Path) -> list[Sampled]:
    return parse_collapsed(path.read_text(encoding="utf-8", errors="replace"), path)


def _merged(files: Mapping[str, Path]) -> Iterator[str]:
    """Yield all stacks as one collapsed file, the process as outermost frame."""
    for model, path in files.items():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            yield f"{model} (process){'' if line.startswith(' ') else ';'}{line}\n"


def _cpu_seconds(pids: Mapping[str, int]) -> dict[str, float]:
    """Return user and system seconds of each sampled process."""
    try:
        times = {model: psutil.Process(pid).cpu_times() for model, pid in pids.items()}
    except psutil.NoSuchProcess as gone:
        raise ToolFailed(f"a backend process ended while it was profiled: {gone}") from gone
    return {model: used.user + used.system for model, used in times.items()}


def _maps_torch(pid: int) -> bool:
    try:
        maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
        return "libtorch" in maps
    except OSError:
        return False


def _spy() -> Path:
    path = Path(sys.executable).with_name("py-spy")
    if not path.is_file():
        raise Missing("py-spy is not installed", hint="pip install 'fvec[engine]'")
    return path


def _tool() -> str:
    done = subprocess.run([str(_spy()), "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "py-spy"


@contextmanager
def _sampling(pids: Mapping[str, int], files: Mapping[str, Path]) -> Iterator[None]:
    """Sample every process from the first statement of the block to its end."""
    samplers = [_Sampler(model, pid, files[model]) for model, pid in pids.items()]
    try:
        for sampler in samplers:
            sampler.start()
        yield
        for sampler in samplers:
            sampler.finish()
    finally:
        for sampler in samplers:
            sampler.kill()


class _Sampler:
    """One `py-spy record`."""

    def __init__(self, model: str, pid: int, output: Path) -> None:
        self._model = model
        # Nonblocking: py-spy must not stop the process, for a stopped backend counts as dead.
        self._argv = [
            *(str(_spy()), "record", "--nonblocking", "--format", "raw", "--full-filenames"),
            *("--pid", str(pid), "--rate", str(SAMPLES_PER_SECOND), "--output", str(output)),
            *("--duration", str(LONGEST_S)),
        ]
        self._output = output
        self._process: subprocess.Popen[str] | None = None
        self._said: list[str] = []
        self._sampling = threading.Event()

    def start(self) -> None:
        """Start sampling; returns once py-spy says that it samples."""
        self._output.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            self._argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        said = self._process.stdout
        threading.Thread(target=self._listen, args=(said,), daemon=True).start()
        if not self._sampling.wait(START_TIMEOUT_S) or self._process.poll() is not None:
            self._fail()

    def finish(self) -> None:
        """Stop sampling and wait for the file of stacks."""
        process = self._process
        if process is None:
            return
        if process.poll() is not None:
            self._fail("it ended before the load did")
        process.send_signal(signal.SIGINT)
        try:
            process.wait(START_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._fail()
        if process.returncode != 0:
            self._fail()
        # py-spy writes no file when every sample was idle.
        self._output.touch()

    def kill(self) -> None:
        """Leave no py-spy behind, whatever happened."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def _listen(self, lines: IO[str]) -> None:
        with lines:
            for line in lines:
                self._said = [*self._said[-20:], line.strip()]
                if "Sampling process" in line:
                    self._sampling.set()
        self._sampling.set()  # the program ended; nobody shall wait for it

    def _fail(self, why: str = "") -> None:
        said = " ".join([*self._said, why])
        if "ermission denied" in said.lower() or "operation not permitted" in said.lower():
            raise Missing(
                f"py-spy may not read the process of model {self._model!r}",
                hint="run as the server's user with 'sysctl kernel.yama.ptrace_scope=0', "
                "or grant CAP_SYS_PTRACE (containers: --cap-add SYS_PTRACE)",
            )
        raise ToolFailed(f"py-spy failed on model {self._model!r}: {said[-500:]}")

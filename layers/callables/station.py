"""What the stations of a callable's judgement share: options, record, how it ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from layers.base import ChangeClass
from layers.callables.cell import Cell
from layers.callables.codec import printable
from layers.callables.process import Process
from layers.callables.spec import Spec
from layers.errors import InvalidInput
from layers.evidence import EndToEnd, Gate, GateResult, Look, NoiseFloor, OutputRow, Pair, Verdict
from layers.manifest import SandboxMode, SandboxSection


@dataclass(frozen=True, slots=True)
class CallableOptions:
    """What is judged, and how; specs are `module:function` or `FILE.py:function`.

    `seed` 0 draws one that nobody can know; the report names it, so that it can be given again.
    `margin` is how much the mean metric may fall, for class approximate. `cpus`: the first is
    what reference and candidate are pinned to; the quietest one where none is given.
    """

    reference: str
    candidate: str
    inputs: str
    change_class: ChangeClass = ChangeClass.EXACT
    referee: str | None = None
    metric: str | None = None
    margin: float | None = None
    python: Path = field(default_factory=lambda: Path(sys.executable))
    seed: int = 0
    sandbox: SandboxSection = field(default_factory=SandboxSection)
    cpus: Sequence[int] | None = None
    budget_s: float = 600.0
    logs: Path | None = None  # a folder to keep what the processes print
    folder: Path | None = None  # that specs are relative to; None: the current one

    def reproduce(self, seed: int) -> list[str]:
        """Return the command that judges again, with the same seed."""
        argv = ["fvec", "judge", "--reference", self.reference, "--candidate", self.candidate]
        argv += ["--inputs", self.inputs, "--class", self.change_class.value]
        for flag, value in (
            ("--referee", self.referee),
            ("--metric", self.metric),
            ("--margin", self.margin),
        ):
            argv += [flag, str(value)] if value is not None else []
        if self.sandbox.mode is not SandboxMode.STRICT:
            argv += ["--sandbox-mode", self.sandbox.mode.value]
        return [*argv, "--seed", str(seed)]


@dataclass(frozen=True, slots=True)
class Specs:
    """The functions of one judgement."""

    reference: Spec
    candidate: Spec
    inputs: Spec
    referee: Spec | None
    metric: Spec | None

    @classmethod
    def of(cls, options: CallableOptions) -> Specs:
        """Return the functions that the options name. Raises InvalidInput."""
        base = options.folder or Path.cwd()
        if not options.python.is_file():
            raise InvalidInput(f"--python: there is no file {options.python}")
        return cls(
            Spec.parse(options.reference, base, "--reference"),
            Spec.parse(options.candidate, base, "--candidate"),
            Spec.parse(options.inputs, base, "--inputs"),
            Spec.parse(options.referee, base, "--referee") if options.referee else None,
            Spec.parse(options.metric, base, "--metric") if options.metric else None,
        )


class Stopped(Exception):  # an answer, not an error
    """The end of a judgement, raised where it is found."""

    def __init__(self, verdict: Verdict, reason: str, detail: str = "") -> None:
        """Keep the verdict with its stable reason code."""
        super().__init__(reason)
        self.verdict, self.reason, self.detail = verdict, reason, printable(detail)


@dataclass
class Record:
    """Evidence of one judgement, filled station by station."""

    gates: list[Gate] = field(default_factory=list)
    equivalence: list[OutputRow] = field(default_factory=list)
    outputs_compared: int = 0
    noise: NoiseFloor | None = None
    looks: list[Look] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    confirm: list[Pair] = field(default_factory=list)
    end_to_end: EndToEnd | None = None
    resolvable: list[tuple[float, int, float]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    def warn(self, text: str) -> None:
        """Keep what a reviewer should know, once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def take(self, gate: Gate) -> None:
        """Keep a gate's answer and end the judgement unless it passed."""
        self.gates.append(gate)
        if gate.result is GateResult.FAIL:
            raise Stopped(Verdict.REJECTED, gate.reason, gate.detail)
        if gate.result is GateResult.INCONCLUSIVE:
            raise Stopped(Verdict.INCONCLUSIVE, gate.reason, gate.detail)


class Cast:
    """Starts the processes of one station and ends them all with it."""

    def __init__(self, cell: Cell, attempt: str) -> None:
        """`attempt` is part of their logs' names."""
        self._cell = cell
        self._attempt = attempt
        self._stack = ExitStack()

    def __enter__(self) -> Cast:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End all processes."""
        self._stack.close()

    def start(self, role: str, spec: Spec) -> Process:
        """Start a process; it loads its function when told."""
        return self._stack.enter_context(Process(self._cell, role, spec, self._attempt))

"""Processes that run `fvec run` over a recording and are killed at a chosen moment.

A life is a fork of this process, with everything imported: the command line runs in it as it does
in a process of its own. What only computes (layers on the same source, plots of the same numbers,
trees of the same YAML) was worked out before the fork, by the product's own code, and is remembered.
A life is killed by SIGKILL: at the n-th of the moments at which it touches anything outside itself,
by its own hand, or after some time, by ours.

The moments: before, in the middle of and after every line of the journal; before every file of its
repository or results that is opened for writing, renamed, removed or locked, every folder that is
made or removed, and every program that is started (audit events of the interpreter).
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import signal
import struct
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from pydantic import BaseModel

from bot import cli, results
from bot.publishing.local import open_local
from bot.render import plots
from knowledge import refine, yamlfile, yamltree
from layers.agents.opening import open_proposers
from layers.base import COOKBOOK, LayerName
from layers.events import Silent
from layers.loop import instruments
from layers.loop.instruments import Opener
from layers.loop.stations import ProposersOpener
from layers.record import environment_record, journal
from layers.registry import LAYERS
from layers.run import RunOptions, run
from tests.survival import world
from tests.survival.replay import Recording, Remembered, opener

_PRELOADED = ("bot.progress", "bot.render.terminal")
_TOUCHING = {
    "os.rename": "rename",
    "os.remove": "remove",
    "os.mkdir": "make a folder",
    "os.rmdir": "remove a folder",
    "os.truncate": "truncate",
    "fcntl.flock": "lock",
    "subprocess.Popen": "start a program",
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_KINDS = (
    *_TOUCHING.values(),
    "open for writing",
    "journal: before",
    "journal: torn",
    "journal: after",
)
LIMIT_S = 120.0
_UNPLOTTED = {"wall_s", "pull_requests"}  # of a report: they hold times and paths
_BROKE = 99  # exit code of a life whose preparation failed
now_s = time.monotonic


@dataclass(frozen=True)
class End:
    """How a life ended."""

    code: int | None  # exit code; None: killed
    moments: int  # that it lived through
    last: str  # kind of the last one
    said: str  # on standard error
    lines: tuple[tuple[str, int], ...]  # of the journal: kind, and the moment right before it


class Tally:
    """Counts the moments of a life, where both processes see it; ends the life at one of them."""

    def __init__(self, inside: Path, at: int | None) -> None:
        self._inside, self._at = str(inside), at
        self._shared = mmap.mmap(-1, 16)
        self._lines = os.memfd_create("lines")  # both processes have it

    def read(self) -> tuple[int, str]:
        count, kind = struct.unpack("qq", self._shared[:16])
        return count, _KINDS[kind]

    def lines(self) -> tuple[tuple[str, int], ...]:
        """Return kind and moment of each line of the journal that was begun."""
        os.lseek(self._lines, 0, os.SEEK_SET)
        with os.fdopen(self._lines) as file:
            rows = [row.split() for row in file]
        return tuple((kind, int(moment)) for kind, moment in rows)

    def moment(self, kind: str) -> None:
        count = struct.unpack("q", self._shared[:8])[0] + 1
        self._shared[:16] = struct.pack("qq", count, _KINDS.index(kind))
        if count == self._at:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in _TOUCHING:
            self.moment(_TOUCHING[event])
        elif event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITING and self._inside in str(path):
                self.moment("open for writing")

    def write_all(self, descriptor: int, payload: bytes) -> None:
        """Write a line of the journal in two halves, with a moment around each."""
        row = f"{json.loads(payload)['kind']} {self.read()[0] + 1}\n"
        os.write(self._lines, row.encode())
        self.moment("journal: before")
        half = len(payload) // 2
        os.write(descriptor, payload[:half])
        self.moment("journal: torn")
        os.write(descriptor, payload[half:])
        self.moment("journal: after")


def preload(
    folder: Path,
    proposers: tuple[str, ...] = (COOKBOOK,),
    opened: Opener | None = None,
    authors: ProposersOpener = open_proposers,
    begin: Callable[[Path], object] = lambda root: None,
) -> None:
    """Import, and have the layers work out, what lives need; by one run in this process.

    `begin` does to the repository what is done before the lives.
    """
    for name in _PRELOADED:
        importlib.import_module(name)
    root, out = world.repository(folder / "ads"), folder / "out"
    begin(root)
    options = RunOptions(out, None, None, 0, None, open_local, proposers=proposers)
    with pytest.MonkeyPatch.context() as patch:
        for module, name, function in _remembering_functions():
            patch.setattr(module, name, function)
        instruments_of = opened or opener(_recording())
        report = run(root, options, Silent(), _remembering(), instruments_of, authors)
        results.write(out, report)


def _remembering_functions() -> list[tuple[ModuleType, str, Callable[..., object]]]:
    """Return what draws plots and reads YAML, remembering those of equal evidence and text."""
    drawing = ("of_evidence", "of_run")
    return [
        *((plots, name, _kept(name, getattr(plots, name))) for name in drawing),
        *((module, "parse", _parsed) for module in (yamlfile, refine)),
    ]


def _kept(name: str, draw: Callable[..., object]) -> Callable[..., object]:
    def drawn(shown: BaseModel, *more: object) -> object:
        key = f"{name} {shown.model_dump_json(exclude=_UNPLOTTED)} {more!r}"
        if key not in Remembered.known:
            Remembered.known[key] = draw(shown, *more)
        return Remembered.known[key]

    return drawn


def _parsed(text: str, path: Path) -> object:
    """Return the tree of a text, which nobody edits; what is wrong with one is worked out anew."""
    key = f"parse {text}"
    if key not in Remembered.known:
        Remembered.known[key] = yamltree.parse(text, path)
    return Remembered.known[key]


@cache
def _recording() -> Recording:
    return Recording.read()


def _remembering() -> dict[LayerName, Remembered]:
    return {name: Remembered(layer) for name, layer in LAYERS.items()}


def live(
    argv: list[str],
    place: Path,
    *,
    at: int | None = None,
    after_s: float | None = None,
    prepare: Callable[[], object] | None = None,
) -> End:
    """Run the command line in a process of its own; kill it at moment `at`, or after a time.

    `prepare` is called in that process first: it may set limits, or put something in the way.
    """
    tally, told = Tally(place, at), place / "told.txt"
    pid = os.fork()
    if pid == 0:
        _child(argv, tally, told, prepare)
    code = _wait(pid, after_s)
    count, kind = tally.read()
    return End(code, count, kind, told.read_text() if told.exists() else "", tally.lines())


def _child(argv: list[str], tally: Tally, told: Path, prepare: Callable[[], object] | None) -> None:
    """Be the life; never returns."""
    code = _BROKE
    try:
        stream = told.open("w")
        os.dup2(stream.fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        os.environ["XDG_CACHE_HOME"] = str(told.parent / "cache")
        instruments.open_live = opener(_recording())
        environment_record.processor = lambda: _recording().environment.cpu
        run.__defaults__ = (_remembering(), None, open_proposers)  # as `run` names them
        for module, name, function in _remembering_functions():
            setattr(module, name, function)
        if prepare is not None:
            prepare()
        journal.write_all = tally.write_all
        sys.addaudithook(tally.on_audit)
        code = cli.main(argv)
        sys.stderr.flush()
    finally:
        if code == _BROKE:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(code)


def _wait(pid: int, after_s: float | None) -> int | None:
    """Return the exit code, None for a life that was killed."""
    began = time.monotonic()
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
        lived_s = time.monotonic() - began
        if (after_s is not None and lived_s >= after_s) or lived_s > LIMIT_S:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)

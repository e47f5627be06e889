"""The float64 referee and the business metric: functions of the serving repository, shut in."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import numpy as np
import numpy.typing as npt

from layers.errors import FvecError, InvalidInput, Location, ToolFailed
from layers.gates import referee_child
from layers.gates.referee_child import LENGTH, MAX_FRAME, Array, FrameError
from layers.programs import ONE_THREAD, describe_log, scrubbed_environment, tail
from layers.sandbox.base import Confinement, Limits
from layers.sandbox.box import Sandbox
from layers.sandbox.jail import Jail

CHILD = Path(referee_child.__file__)
CHUNK = 1 << 20
LIMITS = Limits(memory_bytes=8 << 30, processes=128)


class Referee:
    """Context manager around the confined process that answers requests by a repository's function.

    `spec` is "FILE.py:FUNCTION" relative to `root`; `python` is the model server's interpreter.
    FUNCTION takes one request's inputs by name (strings as object arrays of bytes) and returns
    float64 arrays by output name. With `metric` it takes the inputs and the outputs of one request
    and returns a number. The process sees the repository read-only, no environment of ours, no
    network, and has one thread.
    """

    def __init__(
        self,
        spec: str,
        root: Path,
        python: Path,
        *,
        sandbox: Sandbox,
        metric: bool = False,
        log: Path | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        """`log` receives what the function prints; `timeout_s` bounds the start and each answer.

        Raises InvalidInput where FILE.py is not a file inside `root`.
        """
        self._name = "metric" if metric else "referee"
        name, _, self._function = spec.rpartition(":")
        self._file = (root / name).resolve()
        if not self._file.is_relative_to(root.resolve()) or not self._file.is_file():
            raise InvalidInput(
                f"{self._name} {spec!r} is no file of this repository",
                hint=f"correctness.{self._name} in .github/fvec.yml is FILE.py:FUNCTION",
            )
        self._root, self._python, self._timeout_s = root.resolve(), python, timeout_s
        self._sandbox = sandbox
        self._kept_log = log
        self._jail: Jail | None = None

    def __enter__(self) -> Self:
        """Start the process and wait until the function is loaded.

        Raises InvalidInput where it cannot be loaded, ToolFailed where the process dies.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="fvec-referee-")
        self._home = Path(self._folder.name).resolve()
        self._log = self._kept_log or self._home / "referee.log"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._jail = self._started()
            _, error = self._receive(time.monotonic() + self._timeout_s)
            if error:
                lines = self._last_lines()
                raise InvalidInput(error, at=Location(self._file), hint=f"its log ends\n{lines}")
        except BaseException:
            self.close()
            raise
        return self

    def _started(self) -> Jail:
        """Start the process in the sandbox."""
        argv = [str(self._python), "-u", "-P", str(CHILD), str(self._file), self._function]
        environment = scrubbed_environment(path_first=self._python.parent, home=self._home)
        seen = Confinement(
            read_only=[self._root, self._python.parent.parent, CHILD],
            writable=[self._home],
            limits=LIMITS,
        )
        try:
            with self._log.open("ab") as log:
                return self._sandbox.start(
                    [*argv, self._name],
                    cwd=self._root,
                    env={**environment, **ONE_THREAD},
                    confinement=seen,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                )
        except (FvecError, OSError) as error:
            raise ToolFailed(f"the {self._name} could not be started: {error}") from error

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process."""
        self.close()

    def answer(
        self, request: Mapping[str, Array], outputs: Mapping[str, Array] | None = None
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Return the float64 outputs of one request's inputs, by name.

        Of a metric: `{"metric": float64 scalar}` of the inputs and the `outputs` that answered
        them. Raises ToolFailed where the function raises, the process dies or the time is up; the
        process is gone then, and every further request fails.
        """
        try:
            deadline = time.monotonic() + self._timeout_s
            self._send(referee_child.encode(referee_child.joined(request, outputs)), deadline)
            answers, error = self._receive(deadline)
            if error:
                raise ToolFailed(f"the {self._name} failed: {error}\n{self._last_lines()}")
        except BaseException:
            self._end()
            raise
        return {name: array.astype(np.float64, copy=False) for name, array in answers.items()}

    def close(self) -> None:
        """End the process and remove its folder; may be called twice."""
        self._end()
        self._folder.cleanup()

    def _end(self) -> None:
        """End the process and all that it started."""
        jail, self._jail = self._jail, None
        if jail is not None:
            jail.close()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """Return the pipes to and from the process."""
        process = self._jail.process if self._jail is not None else None
        if process is None or process.stdin is None or process.stdout is None:
            raise ToolFailed(f"the {self._name} is not running")
        return process.stdin, process.stdout

    def _send(self, frame: bytes, deadline: float) -> None:
        """Write a frame; the process reads it whole before it answers."""
        descriptor = self._pipes()[0].fileno()
        os.set_blocking(descriptor, False)
        rest = memoryview(frame)
        while rest:
            self._wait(descriptor, select.POLLOUT, deadline)
            try:
                rest = rest[os.write(descriptor, rest[:CHUNK]) :]
            except BrokenPipeError as error:
                raise ToolFailed(f"the {self._name} died\n{self._last_lines()}") from error

    def _receive(self, deadline: float) -> tuple[dict[str, Array], str | None]:
        """Return the tensors and the error of the next frame."""
        (size,) = LENGTH.unpack(self._read(LENGTH.size, deadline))
        if size > MAX_FRAME:
            raise ToolFailed(f"the {self._name} announced an answer of {size} bytes")
        try:
            return referee_child.decode(self._read(size, deadline))
        except FrameError as error:
            raise ToolFailed(f"the {self._name}'s answer is broken: {error}") from error

    def _read(self, size: int, deadline: float) -> bytes:
        """Read exactly `size` bytes of the answer."""
        descriptor = self._pipes()[1].fileno()
        read = bytearray()
        while len(read) < size:
            self._wait(descriptor, select.POLLIN, deadline)
            chunk = os.read(descriptor, min(CHUNK, size - len(read)))
            if not chunk:
                raise ToolFailed(f"the {self._name} died\n{self._last_lines()}")
            read += chunk
        return bytes(read)

    def _wait(self, descriptor: int, event: int, deadline: float) -> None:
        """Wait until a pipe is ready or broken; raises ToolFailed when the time is up."""
        poller = select.poll()
        poller.register(descriptor, event)
        if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
            message = f"the {self._name} did not answer in {self._timeout_s:g} s"
            raise ToolFailed(f"{message}\n{self._last_lines(settle_s=0)}")

    def _last_lines(self, settle_s: float = 2.0) -> str:
        """Return the end of the log, once a dying process has written its traceback."""
        if self._jail is not None and settle_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._jail.process.wait(settle_s)
        if self._kept_log is not None:
            return describe_log(self._kept_log)
        return "\n".join(f"  | {line}" for line in tail(self._log))

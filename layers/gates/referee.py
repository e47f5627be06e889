"""The float64 referee: a function of the serving repository, in a process of its own."""

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

from layers.errors import InvalidInput, Location, ToolFailed
from layers.gates import referee_child
from layers.gates.referee_child import LENGTH, MAX_FRAME, Array, FrameError
from layers.programs import ONE_THREAD, describe_log, kill_group, scrubbed_environment, tail

CHILD = Path(referee_child.__file__)
CHUNK = 1 << 20


class Referee:
    """Context manager around the process that answers requests in float64.

    `spec` is "FILE.py:FUNCTION" relative to `root`; `python` is the model server's interpreter.
    FUNCTION takes one request's inputs by name (strings as object arrays of bytes) and returns
    float64 arrays by output name. The process sees no environment of ours and one thread.
    """

    def __init__(
        self,
        spec: str,
        root: Path,
        python: Path,
        *,
        log: Path | None = None,
        timeout_s: float = 60.0,
    ) -> None:
        """`log` receives what the referee prints; `timeout_s` bounds the start and each answer.

        Raises InvalidInput where FILE.py is not a file inside `root`.
        """
        name, _, self._function = spec.rpartition(":")
        self._file = (root / name).resolve()
        if not self._file.is_relative_to(root.resolve()) or not self._file.is_file():
            raise InvalidInput(
                f"referee {spec!r} is no file of this repository",
                hint="correctness.referee in .github/fvec.yml is FILE.py:FUNCTION",
            )
        self._root, self._python, self._timeout_s = root, python, timeout_s
        self._kept_log = log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start the process and wait until the function is loaded.

        Raises InvalidInput where it cannot be loaded, ToolFailed where the process dies.
        """
        self._folder = tempfile.TemporaryDirectory(prefix="fvec-referee-")
        home = Path(self._folder.name)
        self._log = self._kept_log or home / "referee.log"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        environment = scrubbed_environment(path_first=self._python.parent, home=home)
        argv = [str(self._python), "-u", "-P", str(CHILD), str(self._file), self._function]
        try:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    argv,
                    cwd=self._root,
                    env={**environment, **ONE_THREAD},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    bufsize=0,
                    start_new_session=True,
                )
            _, error = self._receive(time.monotonic() + self._timeout_s)
            if error:
                lines = self._last_lines()
                raise InvalidInput(error, at=Location(self._file), hint=f"its log ends\n{lines}")
        except OSError as error:
            self.close()
            raise ToolFailed(f"the referee could not be started: {error}") from error
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process."""
        self.close()

    def answer(self, request: Mapping[str, Array]) -> dict[str, npt.NDArray[np.float64]]:
        """Return the float64 outputs of one request's inputs, by name.

        Raises ToolFailed where the function raises, the process dies or the time is up; the
        process is gone then, and every further request fails.
        """
        try:
            deadline = time.monotonic() + self._timeout_s
            self._send(referee_child.encode(request), deadline)
            outputs, error = self._receive(deadline)
            if error:
                raise ToolFailed(f"the referee failed: {error}\n{self._last_lines()}")
        except BaseException:
            self._end()
            raise
        return {name: array.astype(np.float64, copy=False) for name, array in outputs.items()}

    def close(self) -> None:
        """End the process and remove its folder; may be called twice."""
        self._end()
        self._folder.cleanup()

    def _end(self) -> None:
        """Kill the process group and reap it."""
        process, self._process = self._process, None
        if process is None:
            return
        kill_group(process.pid)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """Return the pipes to and from the process."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise ToolFailed("the referee is not running")
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
                raise ToolFailed(f"the referee died\n{self._last_lines()}") from error

    def _receive(self, deadline: float) -> tuple[dict[str, Array], str | None]:
        """Return the tensors and the error of the next frame."""
        (size,) = LENGTH.unpack(self._read(LENGTH.size, deadline))
        if size > MAX_FRAME:
            raise ToolFailed(f"the referee announced an answer of {size} bytes")
        try:
            return referee_child.decode(self._read(size, deadline))
        except FrameError as error:
            raise ToolFailed(f"the referee's answer is broken: {error}") from error

    def _read(self, size: int, deadline: float) -> bytes:
        """Read exactly `size` bytes of the answer."""
        descriptor = self._pipes()[1].fileno()
        read = bytearray()
        while len(read) < size:
            self._wait(descriptor, select.POLLIN, deadline)
            chunk = os.read(descriptor, min(CHUNK, size - len(read)))
            if not chunk:
                raise ToolFailed(f"the referee died\n{self._last_lines()}")
            read += chunk
        return bytes(read)

    def _wait(self, descriptor: int, event: int, deadline: float) -> None:
        """Wait until a pipe is ready or broken; raises ToolFailed when the time is up."""
        poller = select.poll()
        poller.register(descriptor, event)
        if not poller.poll(max(0.0, deadline - time.monotonic()) * 1000):
            message = f"the referee did not answer in {self._timeout_s:g} s"
            raise ToolFailed(f"{message}\n{self._last_lines(settle_s=0)}")

    def _last_lines(self, settle_s: float = 2.0) -> str:
        """Return the end of the log, once a dying process has written its traceback."""
        if self._process is not None and settle_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(settle_s)
        if self._kept_log is not None:
            return describe_log(self._kept_log)
        return "\n".join(f"  | {line}" for line in tail(self._log))

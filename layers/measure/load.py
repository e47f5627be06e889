"""Load on a server: one long-lived generator process, and what it recorded of each block.

The process is Locust as a library, pinned and separate, so that the parent's work never delays a
send. It dies with the thread that opened it: use it from the thread that entered the context.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import numpy as np
import psutil
from numpy.typing import NDArray

from layers.errors import ToolFailed
from layers.measure.fresh import RequestSet
from layers.measure.records import (
    ARRIVALS_FILE,
    NOT_SENT,
    OK,
    ORDER_FILE,
    RECORD,
    RECORDS_FILE,
    RESPONSES_FILE,
    SPANS_FILE,
)
from layers.traffic.recorded import Traffic
from layers.triton.client import MAX_RESPONSE_BYTES

GENERATOR = Path(__file__).with_name("generator.py")
MAX_SLOTS = 1000  # gRPC under gevent runs at most 1024 calls at a time
START_S = 60.0
STOP_S = 10.0
ANSWER_MARGIN_S = 30.0  # beyond a block's own deadline before the generator counts as hung
MAX_ANSWER_BYTES = 1 << 20
MAX_SPOOL_BYTES = 4 << 30  # of a block's answers; what comes after it is an error


@dataclass(frozen=True, slots=True, eq=False)
class LoadResult:
    """What one block of load recorded; `records` has the dtype of `layers.measure.records.RECORD`."""

    mode: Literal["closed", "open"]
    folder: Path
    records: NDArray[np.void]
    wall_s: float  # first send (open: first scheduled send) to last completion; 0 if none completed
    generator_cpu_s: float
    generator_wall_s: float  # what generator_cpu_s was spent in
    lag_p99_ms: float | None  # sent minus scheduled; None at fixed in-flight load
    errors: int  # not answered, or answered by anything but OK
    messages: Sequence[str]  # the first few different error texts
    request_set: str  # digest of the requests that `records["index"]` counts in
    sent_bytes: int  # of all requests that were sent

    @property
    def completed(self) -> int:
        """Return how many requests were answered OK."""
        return len(self.records) - self.errors

    def response(self, position: int) -> bytes:
        """Return the response bytes of `records[position]`; empty if it was not answered OK."""
        record = self.records[position]
        with (self.folder / RESPONSES_FILE).open("rb") as spool:
            spool.seek(int(record["offset"]))
            return spool.read(int(record["length"]))

    def latencies_ms(self) -> NDArray[np.float64]:
        """Return float64[completed]: completion minus scheduled send, of an open-loop block only."""
        if self.mode == "closed":
            raise ValueError("a block at fixed in-flight load yields no latency")
        answered = self.records[self.records["code"] == OK]
        latencies: NDArray[np.float64] = (answered["done_s"] - answered["scheduled_s"]) * 1e3
        return latencies

    def discard(self) -> None:
        """Delete the spooled responses once they have been verified."""
        (self.folder / RESPONSES_FILE).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _Command:
    """A block as the generator reads it; the fields of `swarm.Plan`."""

    folder: str
    address: str
    users: int
    request_deadline_s: float
    block_deadline_s: float
    requests: str | None  # a file of requests to send instead of the recording
    answer_bytes: int  # the largest answer that is taken
    spool_bytes: int  # what all answers may take on disk


class LoadGenerator:
    """A context manager around the generator's process; blocks run one at a time."""

    def __init__(self, traffic: Traffic, *, cpus: Sequence[int], work_dir: Path) -> None:
        """Prepare a generator pinned to `cpus` that leaves each block's files under `work_dir`."""
        self._traffic, self._cpus, self._work_dir = traffic, sorted(cpus), work_dir
        self._log = work_dir / "generator.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._blocks = 0

    @property
    def traffic(self) -> Traffic:
        """Return the traffic whose requests this generator sends."""
        return self._traffic

    def __enter__(self) -> Self:
        """Start the process; ToolFailed if it does not come up."""
        self._work_dir.mkdir(parents=True, exist_ok=True)
        spans = self._work_dir / "spans.npy"
        np.save(spans, self._traffic.requests.spans)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(GENERATOR)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        setup = {
            "parent_pid": os.getpid(),
            "cpus": self._cpus,
            "requests": str(self._traffic.requests.path.resolve()),
            "spans": str(spans.resolve()),
        }
        self._exchange(setup, START_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the process: by the end of its input, or at once when an error ends the context."""
        process, self._process = self._process, None
        if process is not None:
            _stop(process, at_once=kind is not None)

    def closed(
        self,
        address: str,
        order: NDArray[np.int64],
        in_flight: int,
        *,
        requests: RequestSet | None = None,
        request_deadline_s: float = 30.0,
        deadline_s: float = 120.0,
    ) -> LoadResult:
        """Send `order` with `in_flight` requests on their way at all times; measures work.

        `order` counts in `requests`, by default in the recording. What is unanswered `deadline_s`
        after the start counts as an error; so does what was not sent because the server had only
        failed requests for a few seconds.
        """
        users = min(in_flight, len(order))
        deadlines_s = (request_deadline_s, deadline_s)
        return self._block(address, (order, None), requests, users, deadlines_s)

    def open(
        self,
        address: str,
        order: NDArray[np.int64],
        arrivals_s: NDArray[np.float64],
        *,
        requests: RequestSet | None = None,
        request_deadline_s: float = 30.0,
        drain_s: float = 15.0,
    ) -> LoadResult:
        """Send `order[i]` at `arrivals_s[i]` seconds after the start, whatever the server does.

        `order` counts in `requests`, by default in the recording. What is unanswered `drain_s` after the last arrival counts as an error.
        """
        if len(arrivals_s) != len(order) or (np.diff(arrivals_s, prepend=0.0) < 0).any():
            raise ValueError("arrivals_s needs one time from 0 on per request, not decreasing")
        users = min(len(order), MAX_SLOTS)
        deadlines_s = (request_deadline_s, float(arrivals_s[-1]) + drain_s)
        return self._block(address, (order, arrivals_s), requests, users, deadlines_s)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds that the generator's process has used so far."""
        if self._process is None:
            raise ToolFailed("the load generator is not running")
        try:
            times = psutil.Process(self._process.pid).cpu_times()
        except psutil.Error as error:
            raise ToolFailed(f"the load generator is gone; log: {self._log}") from error
        return float(times.user + times.system)

    def _block(
        self,
        address: str,
        plan: tuple[NDArray[np.int64], NDArray[np.float64] | None],
        requests: RequestSet | None,
        users: int,
        deadlines_s: tuple[float, float],
    ) -> LoadResult:
        """Hand one block to the process and read what it recorded; `plan`: order and arrivals."""
        order, arrivals_s = plan
        spans = self._traffic.requests.spans if requests is None else requests.spans
        if users < 1 or order.min() < 0 or order.max() >= len(spans):
            raise ValueError("order must hold indices of the requests to send")
        self._blocks += 1
        folder = self._work_dir / f"block-{self._blocks:05d}"
        folder.mkdir()
        np.save(folder / ORDER_FILE, order)
        if arrivals_s is not None:
            np.save(folder / ARRIVALS_FILE, arrivals_s)
        if requests is not None:
            np.save(folder / SPANS_FILE, spans)
        source = str(requests.path.resolve()) if requests else None
        sizes = (MAX_RESPONSE_BYTES, MAX_SPOOL_BYTES)
        command = _Command(str(folder.resolve()), address, users, *deadlines_s, source, *sizes)
        answer = self._exchange(asdict(command), command.block_deadline_s + ANSWER_MARGIN_S)
        if "error" in answer:
            raise ToolFailed(f"the load generator could not run a block: {answer['error']}")
        answer["request_set"] = requests.digest if requests else self._traffic.digest
        answer["lengths"] = spans[:, 1]
        mode: Literal["closed", "open"] = "closed" if arrivals_s is None else "open"
        return _result(mode, folder, answer)

    def _exchange(self, message: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send one line and wait for one; a process that ends or stays silent is ToolFailed."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise ToolFailed("the load generator is not running")
        try:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            line = _read_line(process.stdout.fileno(), timeout_s)
            answer: dict[str, Any] = json.loads(line)
        except (OSError, ValueError) as error:
            self._process = None
            code = _stop(process, at_once=True)
            raise ToolFailed(
                f"the load generator broke ({error}; exit code {code}); log: {self._log}"
            ) from error
        return answer


def _read_line(descriptor: int, timeout_s: float) -> bytes:
    """Read up to a newline; OSError when the stream ends or the time is up."""
    deadline_s = time.monotonic() + timeout_s
    data = b""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while not data.endswith(b"\n"):
            if not selector.select(max(0.0, deadline_s - time.monotonic())):
                raise TimeoutError(f"silent for {timeout_s:.0f} s")
            chunk = os.read(descriptor, 1 << 16)
            data += chunk
            if not chunk or len(data) > MAX_ANSWER_BYTES:
                raise BrokenPipeError("it ended" if not chunk else "it said too much")
    return data


def _stop(process: subprocess.Popen[bytes], *, at_once: bool = False) -> int:
    """Close the process's input, wait, kill it if it stays; return its exit code."""
    if at_once:
        process.kill()
    with process:  # closes the pipes and waits
        if process.stdin is not None:
            try:
                process.stdin.close()
            except BrokenPipeError:
                process.kill()
        try:
            return process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _result(mode: Literal["closed", "open"], folder: Path, answer: Mapping[str, Any]) -> LoadResult:
    """Read the records of a finished block and sum them up."""
    records: NDArray[np.void] = np.load(folder / RECORDS_FILE)
    if records.dtype != RECORD:
        raise ToolFailed(f"{folder / RECORDS_FILE} does not hold records")
    answered = records[records["code"] == OK]
    sent = records[records["code"] != NOT_SENT]
    lag_p99_ms = None
    if mode == "open":
        lags_ms = (sent["sent_s"] - sent["scheduled_s"]) * 1e3
        lag_p99_ms = float(np.quantile(lags_ms, 0.99)) if len(lags_ms) else 0.0
    return LoadResult(
        mode=mode,
        folder=folder,
        records=records,
        wall_s=float(answered["done_s"].max() - sent["scheduled_s"].min())
        if len(answered)
        else 0.0,
        generator_cpu_s=float(answer["cpu_s"]),
        generator_wall_s=float(answer["wall_s"]),
        lag_p99_ms=lag_p99_ms,
        errors=len(records) - len(answered),
        messages=tuple(answer["messages"]),
        request_set=str(answer["request_set"]),
        sent_bytes=int(answer["lengths"][sent["index"]].sum()),
    )

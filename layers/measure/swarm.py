"""Locust users that send recorded requests over gRPC; runs only inside the generator's process.

Import it after gevent has patched the standard library and gRPC: `generator` sees to that.
"""

from __future__ import annotations

import gc
import logging
import mmap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import grpc
import numpy as np
from gevent import GreenletExit, event, get_hub, sleep
from locust import User, task
from locust.env import Environment
from locust.exception import StopUser
from numpy.typing import NDArray

from layers.measure.records import (
    ARRIVALS_FILE,
    NOT_SENT,
    OK,
    ORDER_FILE,
    RECORD,
    RECORDS_FILE,
    RESPONSES_FILE,
    SPANS_FILE,
    UNANSWERED,
)

METHOD = "/inference.GRPCInferenceService/ModelInfer"
CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
)
CONNECT_S = 3.0
LEAD_S = 0.05  # between the last user's start and the first scheduled send
STOP_S = 5.0
GIVE_UP_S = 3.0  # without an answer at fixed in-flight load
GIVE_UP_FAILURES = 3  # since the last answer: a server that is merely slow fails none
MAX_MESSAGES = 5
SPOOL_FULL = int(grpc.StatusCode.RESOURCE_EXHAUSTED.value[0])
MAX_MESSAGE_CHARS = 300

logging.getLogger("locust").setLevel(logging.ERROR)  # it warns of a fast ramp, which is wanted


class BlockFailedError(Exception):
    """The block could not be run; the text says why."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One block: what `load` sends as a command."""

    folder: str  # holds the order and, for open loop, the arrivals; takes the results
    address: str
    users: int  # requests in flight, or slots for open loop
    request_deadline_s: float
    block_deadline_s: float  # since the block's start
    requests: str | None  # a file to send from instead of the recording; its spans are in `folder`
    answer_bytes: int  # the largest answer that is taken
    spool_bytes: int  # what all answers may take on disk; what comes later is an error


class RequestMap:
    """The bytes of `requests.bin` by index."""

    def __init__(self, path: Path, spans: NDArray[np.int64]) -> None:
        """Map the file; `spans` is int64[n, 2]: offset and length."""
        with path.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._spans: list[tuple[int, int]] = [(int(start), int(size)) for start, size in spans]

    def __getitem__(self, index: int) -> bytes:
        start, size = self._spans[index]
        return self._map[start : start + size]


class Block:
    """The state that all users of one block share; greenlets take turns, so no lock is needed."""

    def __init__(
        self,
        plan: Plan,
        requests: RequestMap,
        call: grpc.UnaryUnaryMultiCallable,
        spool: BinaryIO,
    ) -> None:
        """Read the order and, for open loop, the arrivals from the plan's folder."""
        folder = Path(plan.folder)
        arrivals = folder / ARRIVALS_FILE
        self._order: list[int] = np.load(folder / ORDER_FILE).tolist()
        self._arrivals_s: list[float] | None = (
            np.load(arrivals).tolist() if arrivals.exists() else None
        )
        self._requests, self._call, self._spool = requests, call, spool
        self._deadline_s, self._spool_bytes = plan.request_deadline_s, plan.spool_bytes
        self._next, self._left, self._spooled = 0, len(self._order), 0
        self._start_s = 0.0
        self._answered_s, self._failed = 0.0, 0  # when the last answer came, failures since then
        self._closed = False
        self.records = np.zeros(len(self._order), RECORD)
        self.records["index"] = self._order
        self.records["scheduled_s"] = self._arrivals_s or 0.0
        self.records["code"] = NOT_SENT
        self.messages: list[str] = []
        self.failure: str | None = None
        self._go, self._finished = event.Event(), event.Event()

    def run(self, deadline_s: float) -> tuple[float, float]:
        """Let the users go; return this process's CPU and wall seconds until the block is over."""
        cpu_s, begun_s = time.process_time(), time.monotonic()
        self._start_s = begun_s + LEAD_S
        self._go.set()
        self._finished.wait(LEAD_S + deadline_s)
        self._closed = True
        return time.process_time() - cpu_s, time.monotonic() - begun_s

    def slot(self) -> None:
        """Send requests one after the other until none is left; the life of one user."""
        self._go.wait()
        try:
            while not self._closed and self._next < len(self._order):
                turn = self._next
                self._next += 1
                self._wait_until_due(turn)
                if not self._closed:
                    self._send(turn, self._requests[self._order[turn]])
        except GreenletExit:
            raise
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
            self._finished.set()
            raise

    def _wait_until_due(self, turn: int) -> None:
        """Sleep until the scheduled time; at fixed in-flight load only until the start."""
        due_s = self._start_s + (self._arrivals_s[turn] if self._arrivals_s else 0.0)
        get_hub().loop.update_now()  # its timers count from a cached time
        while (wait_s := due_s - time.monotonic()) > 0:
            sleep(wait_s)

    def _send(self, turn: int, data: bytes) -> None:
        """Send one request, wait for the answer and record both."""
        sent_s = time.monotonic() - self._start_s
        record = self.records[turn]
        record["sent_s"], record["code"] = sent_s, UNANSWERED
        if self._arrivals_s is None:
            record["scheduled_s"] = sent_s
        code, response = OK, b""
        try:
            response = self._call(data, timeout=self._deadline_s)
        except grpc.RpcError as error:
            code = int(error.code().value[0])
            self._note(f"{error.code().name}: {error.details()}")
        done_s = time.monotonic() - self._start_s
        if self._closed:
            return
        if self._spooled + len(response) > self._spool_bytes:
            code, response = SPOOL_FULL, b""
            self._note(f"the answers of this block take more than {self._spool_bytes} bytes")
        record["done_s"], record["code"] = done_s, code
        record["offset"], record["length"] = self._spooled, len(response)
        self._spool.write(response)
        self._spooled += len(response)
        self._left -= 1
        if self._left == 0 or self._is_lost(code, done_s):
            self._finished.set()

    def _is_lost(self, code: int, done_s: float) -> bool:
        """Say whether a block at fixed in-flight load is over: the server only fails requests.

        A model whose process has died fails each of them after a second. Such a block decides
        nothing, and the rest of it would be waited for in vain.
        """
        if code == OK:
            self._answered_s, self._failed = done_s, 0
            return False
        self._failed += 1
        if self._arrivals_s is not None or self._failed < GIVE_UP_FAILURES:
            return False
        lost = done_s - self._answered_s >= GIVE_UP_S
        if lost:
            self._note(f"nothing was answered for {GIVE_UP_S:g} s: the rest was not sent")
        return lost

    def _note(self, message: str) -> None:
        """Keep the first few different error messages."""
        short = message[:MAX_MESSAGE_CHARS]
        if len(self.messages) < MAX_MESSAGES and short not in self.messages:
            self.messages.append(short)


class SlotUser(User):
    """A Locust user that is one slot of the current block."""

    block: ClassVar[Block]

    @task
    def live(self) -> None:
        """Serve the block, then leave."""
        self.block.slot()
        raise StopUser


def run_block(plan: Plan, requests: RequestMap) -> dict[str, Any]:
    """Run one block and write its records and responses; return what else is to be told."""
    folder = Path(plan.folder)
    if plan.requests is not None:
        requests = RequestMap(Path(plan.requests), np.load(folder / SPANS_FILE))
    largest = ("grpc.max_receive_message_length", plan.answer_bytes)
    channel = grpc.insecure_channel(plan.address, options=(*CHANNEL_OPTIONS, largest))
    try:
        _connect(channel, plan.address)
        with (folder / RESPONSES_FILE).open("wb", buffering=1 << 20) as spool:
            block = Block(plan, requests, channel.unary_unary(METHOD), spool)
            cpu_s, wall_s = _drive(block, plan)
            records = block.records.copy()
    finally:
        channel.close()  # cancels what is still in flight
    if block.failure:
        raise BlockFailedError(block.failure)
    np.save(folder / RECORDS_FILE, records)
    return {"cpu_s": cpu_s, "wall_s": wall_s, "messages": block.messages}


def _connect(channel: grpc.Channel, address: str) -> None:
    """Wait until the channel is connected, so that no request pays for it."""
    try:
        grpc.channel_ready_future(channel).result(timeout=CONNECT_S)
    except grpc.FutureTimeoutError as error:
        raise BlockFailedError(f"no connection to {address} in {CONNECT_S:g} s") from error


def _drive(block: Block, plan: Plan) -> tuple[float, float]:
    """Start the users, run the block without garbage collection, stop what is left of them."""
    SlotUser.block = block
    runner = Environment(user_classes=[SlotUser], stop_timeout=0).create_local_runner()
    runner.start(plan.users, spawn_rate=plan.users, wait=True)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        return block.run(plan.block_deadline_s)
    finally:
        gc.enable()
        gc.unfreeze()
        runner.quit()

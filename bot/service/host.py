"""The service as one process: the web server, two workers and the chores, each a thread.

The quick lane decides and answers, the measuring lane measures; so nobody waits for hours to be
told that they were heard. The main thread waits for a signal, and ends the others in order.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import ClassVar, cast

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from bot.github.auth import AppCredentials, Credentials
from bot.service.app import READ_S, Settings, create_app
from bot.service.chores import Chores
from bot.service.database import Database, StoreBroken
from bot.service.dispatch import Dispatcher
from bot.service.metrics import Metrics
from bot.service.signature import SHORTEST, Secrets
from bot.service.store import LANES, Store
from bot.service.vitals import Vitals
from bot.service.worker import GRACE_S, Worker
from layers.errors import InvalidInput, ToolFailed
from layers.manifest import SandboxMode

MOST_CONNECTIONS = 32  # each may hold a payload of 25 MiB
BACKLOG = 128  # connections that wait to be accepted
_LOOK_S = 0.2
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Options:
    """How the service runs; without `worker` it takes deliveries alone."""

    host: str
    port: int
    database: Path
    work: Path
    server_url: str  # where git goes, "https://github.com"
    worker: bool
    weakest: SandboxMode  # that a repository's manifest may name
    commands_per_hour: int


def credentials_of(options: Options, environ: Mapping[str, str]) -> tuple[Credentials, ...]:
    """Return what each thread that asks GitHub shows it; nothing where there is no worker.

    Each has its own, for connections are not shared between threads. Raises Missing, InvalidInput.
    """
    askers = len(LANES) + 1 if options.worker else 0
    return tuple(Credentials.from_environment(environ) for _ in range(askers))


def serve(options: Options, secrets: Secrets, credentials: Sequence[Credentials]) -> str:
    """Serve until a signal comes, and return its name.

    Raises InvalidInput for a secret that can be guessed and where address or database cannot be
    used, ToolFailed where a part of the service ended by itself.
    """
    _check_secrets(secrets)
    _warn(options)
    for folder in (options.database.parent, options.work):
        _make(folder)
    database = Database(options.database)
    try:
        # Signals first: whoever reads that it listens may stop it at once.
        with _signalled() as told, listening(options.host, options.port) as listener:
            service = _Service(options, secrets, credentials, Store(database), listener)
            return service.run(told)
    finally:
        database.close()


class _Service:
    """The threads of one process."""

    def __init__(
        self,
        options: Options,
        secrets: Secrets,
        credentials: Sequence[Credentials],
        store: Store,
        listener: socket.socket,
    ) -> None:
        metrics = Metrics(Vitals(store.database), time.time, options.work)
        settings = Settings(secrets, options.commands_per_hour)
        self._server = uvicorn.Server(configuration(create_app(store, settings, metrics)))
        self._workers: list[Worker] = []
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._server.run, args=([listener],), name="web", daemon=True)
        ]
        if credentials:
            own, *others = credentials
            api = own.api if isinstance(own, AppCredentials) else None
            self._start_later("chores", lambda: Chores(store, api, options.work).run(self._ending))
            for lane, shown in zip(LANES, others, strict=True):
                perform = Dispatcher(
                    store,
                    shown,
                    options.work,
                    server_url=options.server_url,
                    weakest=options.weakest,
                )
                worker = Worker(store, perform, lane, observe=metrics.worked)
                self._workers.append(worker)
                self._start_later(f"the worker of lane {lane}", worker.run)

    def run(self, told: Callable[[], str | None]) -> str:
        """Start everything, wait until a signal is `told`, end everything; returns its name."""
        for thread in self._threads:
            thread.start()
        try:
            while not (name := told()):
                self._check()
                time.sleep(_LOOK_S)
        finally:
            self._end()
        return name

    def _start_later(self, name: str, target: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=target, name=name, daemon=True))

    def _check(self) -> None:
        for thread in self._threads:
            if not thread.is_alive():
                raise ToolFailed(
                    f"a part of the service has ended by itself: {thread.name}",
                    hint="the lines above say why; jobs that were begun are done after a new start",
                )
        for worker in self._workers:
            if worker.stuck.is_set():
                raise ToolFailed(
                    f"a job does not end: {worker.owner}",
                    hint="start the service again: the job is done anew",
                )

    def _end(self) -> None:
        """Take no more, tell the work to stop, and give back what does not in time."""
        self._server.should_exit = True
        self._ending.set()
        for worker in self._workers:
            worker.stop()
        until_s = time.monotonic() + GRACE_S
        for thread in self._threads:
            thread.join(max(until_s - time.monotonic(), 0))
        for worker in self._workers:
            with suppress(StoreBroken):
                worker.abandon()


class Hurried(H11Protocol):
    """HTTP/1.1 on a connection that is closed where the head of a request does not come in time.

    uvicorn waits for ever for the first one, and for the next one from its first byte on; so a few
    connections on which nothing comes would keep all others out.
    """

    patience_s: ClassVar[float] = READ_S
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request."""
        super().connection_made(cast("asyncio.Transport", transport))
        self._wait()

    def on_response_complete(self) -> None:
        """Begin to wait for the next one."""
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        super().connection_lost(exc)
        self._forget()

    def _wait(self) -> None:
        self._forget()
        if not self.transport.is_closing():
            self._deadline = self.loop.call_later(self.patience_s, self._end_if_idle)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end_if_idle(self) -> None:
        """Close the connection, unless a request is at work: its answer is waited for anew."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()


def configuration(app: FastAPI) -> uvicorn.Config:
    """Return how uvicorn serves: what a proxy in front of it says is not believed."""
    return uvicorn.Config(
        app,
        loop="asyncio",
        http=Hurried,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=10,
    )


def _check_secrets(secrets: Secrets) -> None:
    """Refuse a secret that can be guessed: whoever has it signs what GitHub never sent."""
    if secrets.shortest < SHORTEST:
        raise InvalidInput(
            f"a webhook secret has fewer than {SHORTEST} bytes",
            hint="take one of `openssl rand -hex 32`; several are named one a line",
        )


def _warn(options: Options) -> None:
    with suppress(ValueError):  # a name: what it stands for is logged when it listens
        if not ipaddress.ip_address(options.host).is_loopback:
            log.warning(
                "plain HTTP on %s: end TLS in front of it, and let nothing but /webhook through",
                options.host,
            )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InvalidInput(f"{folder} cannot be made: {error.strerror}") from error


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Listen on an address; port 0 is any that is free."""
    try:
        listener = _bound(host, port)
    except OSError as error:
        raise InvalidInput(
            f"cannot listen on {host}:{port}: {error.strerror}",
            hint="is another service there? --port 0 takes any port that is free",
        ) from error
    with listener:
        bound = listener.getsockname()
        shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        log.info("listening on http://%s:%d/webhook", shown, bound[1])
        yield listener


def _bound(host: str, port: int) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = found[0]
    # Of TCP by name: asyncio turns TCP_NODELAY on for no socket that only implies it, and every
    # answer would wait 40 ms for an acknowledgement.
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


@contextmanager
def _signalled() -> Iterator[Callable[[], str | None]]:
    """Note SIGTERM and SIGINT in place of being interrupted: yields what tells which came."""
    came: list[str] = []

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(signal.Signals(number).name)

    stops = (signal.SIGTERM, signal.SIGINT)
    previous = {stop: signal.signal(stop, note) for stop in stops}
    try:
        yield lambda: came[0] if came else None
    finally:
        for stop, handler in previous.items():
            signal.signal(stop, handler)

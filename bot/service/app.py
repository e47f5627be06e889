"""The web application: the webhook, its health and its numbers.

    POST /webhook   a delivery of GitHub's, kept with its job before it is answered
    GET  /healthz   whether deliveries can be kept and somebody does the jobs
    GET  /metrics   for Prometheus

The webhook asks nobody: it checks the signature over the raw bytes, reads the event, writes one
transaction and answers. What follows from an event is decided by a worker.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from starlette.requests import ClientDisconnect

from bot.service import work
from bot.service.database import StoreBroken
from bot.service.metrics import Metrics
from bot.service.signature import HEADER, Secrets
from bot.service.store import Delivery, Limit, Receipt, Store, Work
from bot.service.vitals import Vitals
from bot.wake.events import Event, Unusable, parse

MOST_BYTES = 25 * 2**20  # GitHub sends no larger payload
READ_S = 10.0  # GitHub itself gives up then
COMMANDS_PER_HOUR = 20
_NAME = re.compile(r"[a-z0-9_]{1,64}")
_ID = re.compile(r"[0-9A-Za-z-]{1,64}")
_LENGTH = re.compile(r"[0-9]{1,18}")
log = logging.getLogger(__name__)

# The handler reads raw bytes, so OpenAPI has to be told what they are.
_REQUEST = {
    "parameters": [
        {
            "name": name,
            "in": "header",
            "required": True,
            "schema": {"type": "string", "pattern": like},
        }
        for name, like in (
            ("X-GitHub-Event", f"^{_NAME.pattern}$"),
            ("X-GitHub-Delivery", f"^{_ID.pattern}$"),
            (HEADER, "^sha256=[0-9a-f]{64}$"),
        )
    ],
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}}},
    },
}


class Accepted(BaseModel):
    """Answer to a delivery: what became of it."""

    result: Receipt


class Refusal(BaseModel):
    """Answer to what was not taken: why, in one line."""

    error: str


class Health(BaseModel):
    """Answer of a service that works."""

    status: str


@dataclass(frozen=True, slots=True)
class Settings:
    """How deliveries are taken."""

    secrets: Secrets
    commands_per_hour: int = COMMANDS_PER_HOUR  # of one sender
    most_bytes: int = MOST_BYTES
    clock: Callable[[], float] = time.time


class _Refused(Exception):
    """A request that is not taken; the text is for the sender, `label` for the counters."""

    def __init__(self, status: int, label: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.label = label


def create_app(store: Store, settings: Settings, metrics: Metrics | None = None) -> FastAPI:
    """Return the application on an open store; `metrics` where a worker counts with it."""
    vitals = Vitals(store.database)
    metrics = metrics or Metrics(vitals, settings.clock)
    webhook = Webhook(store, settings, metrics)
    app = FastAPI(title="fvec", version=version("fvec"), docs_url=None, redoc_url=None)

    @app.get("/healthz", response_model=Health, responses=_told(503))
    def healthz() -> Response:
        """Say whether deliveries are kept and worked on."""
        trouble = vitals.trouble(settings.clock())
        if trouble:
            return JSONResponse(Refusal(error=trouble).model_dump(), 503)
        return JSONResponse(Health(status="ok").model_dump())

    @app.get("/metrics", response_class=PlainTextResponse)
    def prometheus() -> Response:
        """Return the numbers in Prometheus' text format."""
        return Response(metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app.post(
        "/webhook",
        status_code=202,
        response_model=Accepted,
        responses=_told(400, 401, 408, 413, 415, 503),
        openapi_extra=_REQUEST,
    )(webhook.receive)
    return app


class Webhook:
    """The webhook: requests in, deliveries and jobs in the store, answers out."""

    def __init__(self, store: Store, settings: Settings, metrics: Metrics) -> None:
        """Keep deliveries in `store`."""
        self._store, self._settings, self._metrics = store, settings, metrics

    async def receive(self, request: Request) -> Response:
        """Take a delivery of GitHub's; answered once it is on disk, before anything is done."""
        try:
            body = await self._body(request)
            receipt = await run_in_threadpool(self._take, body, request.headers)
        except _Refused as refused:
            self._metrics.delivered(refused.label)
            return JSONResponse(Refusal(error=str(refused)).model_dump(), refused.status)
        self._metrics.delivered(receipt)
        return JSONResponse(Accepted(result=receipt).model_dump(), 202)

    async def _body(self, request: Request) -> bytes:
        """Return the raw body; what is too large is not read further."""
        most = self._settings.most_bytes
        declared = request.headers.get("content-length", "")
        if _LENGTH.fullmatch(declared) and int(declared) > most:
            raise _too_large(most)
        body = bytearray()
        try:
            async with asyncio.timeout(READ_S):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > most:
                        raise _too_large(most)
        except (TimeoutError, ClientDisconnect):
            raise _Refused(408, "cut off", "the body did not come to its end") from None
        return bytes(body)

    def _take(self, body: bytes, headers: Mapping[str, str]) -> Receipt:
        """Keep a delivery; raises `_Refused`. Nothing is read before the signature is right."""
        if not self._settings.secrets.signed(body, headers.get(HEADER)):
            raise _Refused(401, "unsigned", f"{HEADER} does not sign this body with our secret")
        _check(headers)
        delivery_id, name = headers["X-GitHub-Delivery"], headers["X-GitHub-Event"]
        event = _read(name, body)
        if event is None:
            return self._keep(Delivery(delivery_id, name), [], None)
        about = work.repositories_of(event)
        return self._keep(
            Delivery(delivery_id, name, about, event.installation, work.once_of(event)),
            work.works_of(delivery_id, event),
            work.limit_of(event, self._settings.commands_per_hour),
        )

    def _keep(self, delivery: Delivery, works: list[Work], limit: Limit | None) -> Receipt:
        try:
            return self._store.record(delivery, works, self._settings.clock(), limit=limit)
        except StoreBroken as error:
            log.exception("a delivery could not be kept")
            raise _Refused(503, "not kept", "it cannot be kept now: deliver it again") from error


def _check(headers: Mapping[str, str]) -> None:
    """Refuse headers that GitHub does not send."""
    media_type = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise _Refused(415, "unusable", "set the content type of the webhook to application/json")
    if not _ID.fullmatch(headers.get("X-GitHub-Delivery", "")):
        raise _Refused(400, "unusable", "X-GitHub-Delivery is no id of a delivery")
    if not _NAME.fullmatch(headers.get("X-GitHub-Event", "")):
        raise _Refused(400, "unusable", "X-GitHub-Event is no name of an event")


def _read(name: str, body: bytes) -> Event | None:
    """Return the event of a payload, None where it is of no use to us."""
    try:
        return parse(name, json.loads(body))
    except Unusable as error:
        raise _Refused(400, "unusable", str(error)) from error
    except (ValueError, RecursionError) as error:
        raise _Refused(400, "unusable", "the body is no JSON") from error


def _too_large(most: int) -> _Refused:
    return _Refused(413, "too large", f"a payload has at most {most} bytes")


def _told(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return how OpenAPI describes answers that refuse."""
    return {status: {"model": Refusal} for status in statuses}

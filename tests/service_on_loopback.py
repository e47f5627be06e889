"""The webhook service behind a real socket, and signed deliveries to it."""

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import requests
import uvicorn
from fastapi import FastAPI

from bot.service.host import configuration, listening
from bot.service.signature import HEADER, sign

SIGNED_WITH = "what-the-tests-sign-with"


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Serve an application as `fvec serve` does, on a free port; yields its address."""
    with listening("127.0.0.1", 0) as listener:
        server = uvicorn.Server(configuration(app))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


@dataclass
class Sender:
    """Who delivers events, as GitHub does."""

    url: str
    secret: str = SIGNED_WITH
    session: requests.Session = field(default_factory=requests.Session)

    def __post_init__(self) -> None:
        self.session.trust_env = False

    def post(self, body: bytes, headers: dict[str, str]) -> requests.Response:
        return self.session.post(f"{self.url}/webhook", data=body, headers=headers, timeout=30)

    def headers(self, name: str, body: bytes, delivery: str | None = None) -> dict[str, str]:
        return {
            "Content-Type": "application/json",
            "X-GitHub-Event": name,
            "X-GitHub-Delivery": delivery or str(uuid.uuid4()),
            HEADER: sign(body, self.secret),
        }

    def deliver(self, name: str, payload: object, delivery: str | None = None) -> requests.Response:
        body = json.dumps(payload).encode()
        return self.post(body, self.headers(name, body, delivery))

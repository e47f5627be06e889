"""The webhook service with its two workers beside a GitHub on loopback, the lanes taking turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bot.github.auth import TokenCredentials
from bot.service.app import Settings, create_app
from bot.service.dispatch import Dispatcher
from bot.service.signature import Secrets
from bot.service.store import Store
from bot.service.worker import Worker
from tests.github.fake_github import FakeGitHub
from tests.github.webhooks import Event
from tests.service_on_loopback import served


class BotService:
    """What a person installs, driven by the events that a test delivers."""

    def __init__(
        self, github: FakeGitHub, store: Store, folder: Path, *, fvec: Sequence[str] = ()
    ) -> None:
        """Work in `folder`; `fvec` is the program that measures."""
        self.github, self.store = github, store
        credentials = TokenCredentials(github.token, login=github.login)
        dispatcher = Dispatcher(
            store, credentials, folder, server_url=github.url, throttle=False, fvec=fvec
        )
        self._workers = [Worker(store, dispatcher, lane) for lane in ("quick", "measure")]

    def deliver(self, event: Event) -> None:
        """Have an event delivered, and work until nothing is left to do."""
        with self._listening():
            delivered = self.github.deliver(event)
        if delivered.status != 202:
            raise AssertionError(f"the service answered {delivered.status}: {delivered.text}")
        quick, measuring = self._workers
        while quick._round() or measuring._round():
            pass

    @contextmanager
    def _listening(self) -> Iterator[None]:
        settings = Settings(Secrets([self.github.webhook_secret]), commands_per_hour=5)
        with served(create_app(self.store, settings)) as url:
            self.github.hook_url = f"{url}/webhook"
            yield

    def jobs(self) -> list[tuple[str, str, str]]:
        """Return kind, state and result of every job, oldest first."""
        with self.store.database.transaction() as db:
            return db.execute("SELECT kind, state, result FROM jobs ORDER BY id").fetchall()

"""`fvec serve`: the webhook service."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bot.commands import arguments, engine
from bot.commands.outcome import Outcome
from bot.github import server_url
from layers.errors import InvalidInput, Location, Missing

if TYPE_CHECKING:
    from bot.service.signature import Secrets

SECRET, SECRET_FILE = "FVEC_WEBHOOK_SECRET", "FVEC_WEBHOOK_SECRET_FILE"
FOLDER = Path(".fvec/service")
_LARGEST_FILE_BYTES = 65_536
_LOGGED = ("bot", "uvicorn")
_load = partial(
    engine.load,
    extras="service",
    told="the service needs the package {!r}, which is not installed",
)
_HOW = (
    f"set {SECRET}, or {SECRET_FILE} to a file that holds it: the secret of the webhook's settings on "
    "GitHub, e.g. of `openssl rand -hex 32`; several between commas or on lines of their own while "
    "one replaces another"
)


def add(commands: arguments.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser("serve", help="take GitHub's webhooks, and do what they ask for")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--port", type=_port, default=8080, help="0: any that is free (default: 8080)"
    )
    parser.add_argument(
        "--database",
        metavar="FILE",
        type=Path,
        default=FOLDER / "jobs.sqlite3",
        help=f"deliveries and jobs, on a local disk (default: {FOLDER / 'jobs.sqlite3'})",
    )
    parser.add_argument(
        "--work",
        metavar="DIR",
        type=Path,
        default=FOLDER / "work",
        help=f"checkouts and results (default: {FOLDER / 'work'})",
    )
    parser.add_argument(
        "--no-worker",
        action="store_true",
        help="take deliveries alone; another process with the same --database does the jobs",
    )
    parser.add_argument(
        "--weakest-sandbox",
        metavar="MODE",
        choices=arguments.SANDBOX_MODES,
        default="strict",
        help="the weakest `sandbox.mode` that a manifest may name; what runs in a weaker one than "
        "strict or no-cgroup can read the App's key (default: strict)",
    )
    parser.add_argument(
        "--commands-per-hour",
        metavar="N",
        type=_count,
        default=20,
        help="commands that one person may give (default: 20)",
    )
    arguments.add_json(parser)
    parser.set_defaults(handler=run)


def run(args: argparse.Namespace) -> Outcome:
    """Serve until SIGTERM or SIGINT, which is the normal end."""
    from rich.text import Text

    from layers.manifest import SandboxMode

    host = _load("bot.service.host")
    secrets = webhook_secrets(os.environ)
    options = host.Options(
        host=args.host,
        port=args.port,
        database=args.database,
        work=args.work,
        server_url=server_url(os.environ),
        worker=not args.no_worker,
        weakest=SandboxMode(args.weakest_sandbox),
        commands_per_hour=args.commands_per_hour,
    )
    credentials = host.credentials_of(options, os.environ)
    with logged(lambda: tuple(secret for own in credentials for secret in own.secrets())):
        ended_by: str = host.serve(options, secrets, credentials)
    document = {"schema": "fvec.serve/1", "ended_by": ended_by}
    return Outcome(document, Text(f"ended by {ended_by}"))


def webhook_secrets(environ: MutableMapping[str, str]) -> Secrets:
    """Take the webhook's secrets out of the environment, so that no child process gets them.

    Raises Missing where there is none, InvalidInput where the file cannot be read.
    """
    from bot.service.signature import Secrets

    text, file = environ.pop(SECRET, ""), environ.pop(SECRET_FILE, "")
    if text and file:
        raise InvalidInput(f"both {SECRET} and {SECRET_FILE} are set", hint="unset one of them")
    if file:
        text = _content(Path(file))
    try:
        return Secrets.parse(text)
    except ValueError:
        raise Missing(
            "no webhook secret: the service takes signed deliveries only", hint=_HOW
        ) from None


@contextmanager
def logged(secrets: Callable[[], tuple[str, ...]]) -> Iterator[None]:
    """Show what the service logs on standard error, without secrets, while the block runs."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Redacting(secrets))
    loggers = [logging.getLogger(name) for name in _LOGGED]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)


class _Redacting(logging.Formatter):
    """Lines with time and level, tracebacks too, in which nothing secret is left."""

    def __init__(self, secrets: Callable[[], tuple[str, ...]]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        from layers.redact import redact

        return redact(super().format(record), self._secrets())


def _content(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            content = opened.read(_LARGEST_FILE_BYTES)
    except OSError as error:
        raise InvalidInput(f"{SECRET_FILE}: {error.strerror}", at=Location(file)) from error
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{SECRET_FILE}: it is no UTF-8 text", at=Location(file)) from error


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65_535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 0 to 65535")
    return int(text)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to 9999")
    return int(text)

"""The service's one SQLite file: its tables, its version, and whole transactions.

WAL lets the webhook write while a worker reads; `synchronous=FULL` means that what was answered
with 202 is on disk. All processes that open the file are on one machine.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from layers.errors import InvalidInput, Location, ToolFailed

APPLICATION_ID = 0x66766563  # "fvec": whose file this is, in SQLite's header
VERSION = 2
BUSY_S = 10.0  # how long a writer waits for another process's transaction

_TABLES = (
    """CREATE TABLE deliveries (
        id TEXT PRIMARY KEY,
        event TEXT NOT NULL,
        received_s REAL NOT NULL
    ) STRICT""",
    """CREATE TABLE jobs (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        lane TEXT NOT NULL,
        key TEXT NOT NULL,
        payload TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'queued'
            CHECK (state IN ('queued', 'running', 'done', 'refused', 'failed', 'superseded')),
        not_before_s REAL NOT NULL,
        created_s REAL NOT NULL,
        ended_s REAL,
        attempts INTEGER NOT NULL DEFAULT 0,
        claims INTEGER NOT NULL DEFAULT 0,
        delays INTEGER NOT NULL DEFAULT 0,
        delayed_s REAL,
        owner TEXT,
        lease_until_s REAL,
        superseded INTEGER NOT NULL DEFAULT 0,
        result TEXT NOT NULL DEFAULT ''
    ) STRICT""",
    # A key is of one job at a time; a job that is being stopped for a newer one does not hold it.
    """CREATE UNIQUE INDEX jobs_live ON jobs (key)
        WHERE state IN ('queued', 'running') AND superseded = 0""",
    "CREATE INDEX jobs_by_state ON jobs (state, lane, not_before_s)",
    """CREATE TABLE senders (
        login TEXT PRIMARY KEY,
        tokens REAL NOT NULL,
        at_s REAL NOT NULL,
        told INTEGER NOT NULL
    ) STRICT""",
    """CREATE TABLE repositories (
        name TEXT PRIMARY KEY,
        installation INTEGER,
        next_tick_s REAL NOT NULL
    ) STRICT""",
    """CREATE TABLE workers (
        owner TEXT PRIMARY KEY,
        lane TEXT NOT NULL,
        beat_s REAL NOT NULL
    ) STRICT""",
    """CREATE TABLE redeliveries (
        guid TEXT PRIMARY KEY,
        tries INTEGER NOT NULL,
        at_s REAL NOT NULL
    ) STRICT""",
    "CREATE TABLE marks (name TEXT PRIMARY KEY, at_s REAL NOT NULL) STRICT",
)


class StoreBroken(ToolFailed):
    """The file cannot be read or written; what was committed is whole."""


class Database:
    """An open file; one connection, which threads take turns at."""

    def __init__(self, path: Path) -> None:
        """Open the file at `path`, made with its tables where there is none.

        Raises InvalidInput where it is another program's or of a newer fvec, StoreBroken where it
        cannot be used.
        """
        self.path = path
        self._turn = threading.Lock()
        try:
            _make_private(path)
            self._connection = sqlite3.connect(
                path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise InvalidInput(
                f"the database cannot be opened: {error}",
                at=Location(path),
                hint="name a file in a folder that this user may write to",
            ) from error
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the file; nothing is left to be written."""
        with self._turn:
            self._connection.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Do everything in the block or, where it raises, nothing.

        The write lock is taken at once: what the block reads stays true until it has written.
        Raises StoreBroken for whatever SQLite says.
        """
        with self._turn:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            except sqlite3.Error as error:
                raise _broken(error) from error
            finally:
                with suppress(sqlite3.Error):
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")

    def _prepare(self) -> None:
        try:
            (mode,) = self._connection.execute("PRAGMA journal_mode = WAL").fetchone()
            self._connection.execute("PRAGMA synchronous = FULL")
        except sqlite3.Error as error:
            raise self._not_ours(f"it is no database that can be used: {error}") from error
        if mode != "wal":
            raise self._not_ours("its file system has no shared memory, as a network's has none")
        with self.transaction() as db:
            self._make_tables(db)

    def _make_tables(self, db: sqlite3.Connection) -> None:
        version, application = (
            db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("user_version", "application_id")
        )
        if version == 0 and application == 0 and not _tables(db):
            for statement in _TABLES:
                db.execute(statement)
            db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            db.execute(f"PRAGMA user_version = {VERSION}")
        elif application != APPLICATION_ID:
            raise self._not_ours("it belongs to another program")
        elif version != VERSION:
            raise self._not_ours(f"it is of version {version}; this fvec knows {VERSION}")

    def _not_ours(self, why: str) -> InvalidInput:
        return InvalidInput(
            f"the database cannot be used: {why}",
            at=Location(self.path),
            hint="give --database a file of its own on a local disk",
        )


def _make_private(path: Path) -> None:
    """Make the file for this user alone: it holds what people wrote in private repositories."""
    path.touch(mode=0o600)


def _tables(db: sqlite3.Connection) -> int:
    (count,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return int(count)


def _broken(error: sqlite3.Error) -> StoreBroken:
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    return StoreBroken(
        f"the service's database cannot be used: {name}: {error}",
        hint="look at the disk: full, read-only or failing",
    )

"""What comes round by itself: ticks of known repositories, polls, forgetting."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable

from bot.service.database import Database

TICK_S = 6 * 3600.0  # how often a repository is asked whether an analysis is due
DAY_S = 24 * 3600.0
KEPT_S = 30 * DAY_S  # how long ended jobs and deliveries stay; GitHub redelivers for three days
ONCE = "once "  # how marks of what comes once begin
LOST_WORKER_S = DAY_S  # after which a worker that does not beat is forgotten


def spread(name: str) -> float:
    """Return a repository's place between 0 and 1, the same each time: ticks come spread out."""
    digest = hashlib.sha256(name.lower().encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def meet(
    db: sqlite3.Connection, names: Iterable[str], installation: int | None, now_s: float
) -> None:
    """Remember repositories within a transaction, and the installation that now has them."""
    db.executemany(
        "INSERT INTO repositories (name, installation, next_tick_s) VALUES (?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET installation = excluded.installation"
        " WHERE excluded.installation IS NOT installation",
        [(name, installation, now_s + TICK_S * spread(name)) for name in names],
    )


def is_first(db: sqlite3.Connection, once: str, now_s: float) -> bool:
    """Note within a transaction what comes once, and say whether it is new; "" always is."""
    if not once:
        return True
    noted = db.execute(
        "INSERT INTO marks (name, at_s) VALUES (?, ?) ON CONFLICT (name) DO NOTHING",
        (f"{ONCE}{once}", now_s),
    )
    return noted.rowcount > 0


class Rounds:
    """When what was last done, in a database; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        """Use an open database."""
        self._database = database

    def due(self, now_s: float) -> list[tuple[str, int | None]]:
        """Return the repositories whose tick is due, with their installations."""
        with self._database.transaction() as db:
            found = db.execute(
                "SELECT name, installation FROM repositories WHERE next_tick_s <= ? ORDER BY name",
                (now_s,),
            )
            return [(str(name), installation) for name, installation in found]

    def ticked(self, names: Iterable[str], now_s: float) -> None:
        """Note that these had their tick; the next is due after `TICK_S`."""
        with self._database.transaction() as db:
            db.executemany(
                "UPDATE repositories SET next_tick_s = ? WHERE name = ?",
                [(now_s + TICK_S, name) for name in names],
            )

    def forget(self, name: str) -> None:
        """Tick no more for a repository, until an event of it comes."""
        with self._database.transaction() as db:
            db.execute("DELETE FROM repositories WHERE name = ?", (name,))

    def take_turn(self, name: str, every_s: float, now_s: float) -> bool:
        """Say whether `name` is due, and note that the caller does it now: of all processes one."""
        with self._database.transaction() as db:
            row = db.execute("SELECT at_s FROM marks WHERE name = ?", (name,)).fetchone()
            if row is not None and row[0] <= now_s < row[0] + every_s:
                return False
            _mark(db, name, now_s)
            return True

    def mark(self, name: str) -> float:
        """Return a time that was set; 0 where none was."""
        with self._database.transaction() as db:
            row = db.execute("SELECT at_s FROM marks WHERE name = ?", (name,)).fetchone()
            return float(row[0]) if row else 0.0

    def set_mark(self, name: str, at_s: float) -> None:
        """Set a time."""
        with self._database.transaction() as db:
            _mark(db, name, at_s)

    def received(self, deliveries: Iterable[str]) -> frozenset[str]:
        """Return those of some deliveries' ids that were recorded."""
        with self._database.transaction() as db:
            return frozenset(
                one
                for one in deliveries
                if db.execute("SELECT 1 FROM deliveries WHERE id = ?", (one,)).fetchone()
            )

    def try_again(self, guid: str, most: int, now_s: float) -> bool:
        """Count one more redelivery of a delivery; False where it had `most` of them."""
        with self._database.transaction() as db:
            counted = db.execute(
                "INSERT INTO redeliveries (guid, tries, at_s) VALUES (?, 1, ?) ON CONFLICT (guid)"
                " DO UPDATE SET tries = tries + 1, at_s = excluded.at_s WHERE tries < ?",
                (guid, now_s, most),
            )
            return counted.rowcount > 0

    def prune(self, now_s: float) -> None:
        """Forget what ended or came long ago."""
        with self._database.transaction() as db:
            db.execute("DELETE FROM deliveries WHERE received_s < ?", (now_s - KEPT_S,))
            db.execute("DELETE FROM jobs WHERE ended_s < ?", (now_s - KEPT_S,))
            db.execute("DELETE FROM senders WHERE at_s < ?", (now_s - DAY_S,))
            db.execute("DELETE FROM redeliveries WHERE at_s < ?", (now_s - KEPT_S,))
            db.execute("DELETE FROM workers WHERE beat_s < ?", (now_s - LOST_WORKER_S,))
            db.executemany(
                "DELETE FROM marks WHERE name LIKE ? AND at_s < ?",
                [(kind, now_s - KEPT_S) for kind in ("tidy %", f"{ONCE}%")],
            )


def _mark(db: sqlite3.Connection, name: str, at_s: float) -> None:
    db.execute("INSERT OR REPLACE INTO marks (name, at_s) VALUES (?, ?)", (name, at_s))

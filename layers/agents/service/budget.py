"""What agents may spend and what they spent: a ledger on disk, and hard stops.

A call is written down twice: before it is made, with the most that it can cost, and afterwards
with what it did cost. A call that no second line follows was cut off by the end of its process: it
counts with the most. So the ledger never says less than what a service bills. Time of work is
written down as it passes: of what is killed, at most the last moments are not counted.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias

from pydantic import Field, ValidationError

from layers.agent_settings import BudgetSection, ModelSection, Prices
from layers.agents.service import lines
from layers.errors import InvalidInput, JournalBroken, Location
from layers.record.journal import utc_now
from layers.story import Cost, Outcome, Role, Told

FEWEST_TOKENS = 256  # of a reply: fewer would only be thrown away
BEAT_S = 15.0  # after which work that goes on is written down again
_MILLION = 1e6
_LEAST_USD, _LEAST_S = 1e-9, 1.0  # below this two ledgers say the same
_RESUME = "when that is mended, `fvec run --resume` goes on from here"
_NOTHING = Cost()
_Kind: TypeAlias = Literal["asked", "charged", "worked"]


class OutOfBudget(Exception):
    """A limit is reached, and no further call may begin."""

    def __init__(self, outcome: Outcome, text: str) -> None:
        """Keep which limit it is, and a sentence with the numbers."""
        super().__init__(text)
        self.outcome = outcome
        self.text = text


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one reply, as services bill them; `input_tokens` are those of no cache."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Return both together."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
        )

    @property
    def tokens_in(self) -> int:
        """All that the model read, from wherever."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def tokens(self) -> int:
        """All tokens, whatever they cost."""
        return self.tokens_in + self.output_tokens


class _Line(Told):
    """One line of the ledger."""

    kind: _Kind
    at: str
    worked_s: float = Field(default=0.0, ge=0)  # since the line before
    role: Role | None = None
    cost: Cost = _NOTHING  # the most that it can be, where the call was only asked


def cost_of(usage: Usage, prices: Prices | None, wall_s: float) -> Cost:
    """Return what one call cost; its money is unknown without prices."""
    return Cost(
        calls=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        usd=None if prices is None else _usd(usage, prices),
        wall_s=max(0.0, wall_s),
    )


def _usd(usage: Usage, prices: Prices) -> float:
    return (
        usage.input_tokens * prices.input
        + usage.output_tokens * prices.output
        + usage.cache_read_tokens * prices.cache_read
        + usage.cache_write_tokens * prices.cache_write
    ) / _MILLION


class Purse:
    """What a run may spend on agents, over all its processes."""

    def __init__(
        self,
        ledger: Path,
        limits: BudgetSection,
        clock: Callable[[], float] = time.monotonic,
        beat_s: float = BEAT_S,
    ) -> None:
        """Read what earlier processes spent; a last line that was cut off is taken away.

        Raises InvalidInput, with the line, where the ledger is not one, and JournalBroken where it
        cannot be read: nothing may be spent while nobody knows what was.
        """
        self._ledger = ledger
        self._limits = limits
        self._clock = clock
        self._beat_s = beat_s
        self._writing = threading.Lock()
        self._charges: list[Cost] = []
        self._spent = Cost(usd=0.0)
        self._promised: tuple[Role | None, Cost] | None = None  # asked for, and not charged
        self._worked_s = 0.0
        self._since: float | None = None  # up to when the work that goes on is counted
        try:
            ledger.parent.mkdir(parents=True, exist_ok=True)
            found = _read(ledger)
        except OSError as error:
            raise self._broken("read", error) from error
        for line in found:
            self._take(line)
        self._break_off()
        self._earlier = (self._spent, self._worked_s)  # by earlier processes
        self._told = (Cost(usd=0.0), 0.0)  # of it, what their answers tell of

    @property
    def spent(self) -> Cost:
        """All that was charged; its money is unknown where a model has no prices."""
        return self._spent

    @property
    def worked_s(self) -> float:
        """Seconds of work so far, also of the work that goes on."""
        with self._writing:
            return self._worked_s + self._running()

    @property
    def left_s(self) -> float:
        """Seconds of work that are left."""
        return max(0.0, self._limits.minutes * 60 - self.worked_s)

    def mark(self) -> int:
        """Return a place in the ledger, for `since`."""
        return len(self._charges)

    def since(self, mark: int) -> Cost:
        """Return what was charged after a mark, whatever became of the calls."""
        return sum(self._charges[mark:], Cost(usd=0.0))

    def check(self) -> None:
        """Raise OutOfBudget once a limit is reached: to be asked before each call."""
        limits, spent = self._limits, self._spent
        if spent.tokens >= limits.tokens:
            _stop(f"{spent.tokens:,} tokens are spent of {limits.tokens:,}")
        if limits.usd is not None:
            if spent.usd is None:
                _stop("money is bounded, and a model was asked whose prices are not known")
            elif spent.usd >= limits.usd:
                _stop(f"${spent.usd:.4f} are spent of ${limits.usd:.4f}")
        self.check_time()

    def check_time(self) -> None:
        """Raise OutOfBudget once the time is up: to be asked before all that takes time."""
        worked_s, minutes = self.worked_s, self._limits.minutes
        if worked_s >= minutes * 60:
            raise OutOfBudget(
                Outcome.OUT_OF_TIME,
                f"agents have worked for {worked_s / 60:.1f} of {minutes:g} minutes",
            )

    def affordable_tokens(self, model: ModelSection) -> int:
        """Return how long the next reply may be, by what is left of tokens and money."""
        limits, spent = self._limits, self._spent
        most = float(min(model.max_tokens, limits.tokens - spent.tokens))
        if limits.usd is not None and spent.usd is not None and model.prices is not None:
            price = model.prices.output / _MILLION
            if price > 0:
                most = min(most, (limits.usd - spent.usd) / price)
        return max(FEWEST_TOKENS, int(most))

    def promise(self, role: Role, most: Usage, prices: Prices | None) -> None:
        """Write down the most that the next call can cost; `charge` says what it did cost."""
        self._break_off()
        promised = cost_of(most, prices, 0.0)
        self._write("asked", role, promised)
        self._promised = (role, promised)

    def charge(self, role: Role, usage: Usage, prices: Prices | None, wall_s: float) -> Cost:
        """Write down what a call cost, and return it; on disk before that."""
        cost = cost_of(usage, prices, wall_s)
        self._write("charged", role, cost)
        self._promised = None
        self._count(cost)
        return cost

    def at_least(self, spent: Cost, worked_s: float) -> None:
        """Count what a journal says was spent by a moment, where the ledger says less.

        It was lost then, or is another one: nothing of it may be spent anew.
        """
        self._told = (spent, worked_s)
        missing, missing_s = _beyond(spent, self._spent), worked_s - self.worked_s
        if missing.calls or missing.tokens or (missing.usd or 0.0) > _LEAST_USD:
            self._break_off()
            self._write("charged", None, missing)
            self._count(missing)
        if missing_s > _LEAST_S:
            self._write("worked", more_s=missing_s)

    def untold(self) -> Cost | None:
        """Return, once, what earlier processes spent of which no answer tells; None for nothing.

        One of them was killed while an author worked: the ledger has its calls, and its time up to
        the last line. To be asked when all that a journal has was given to `at_least`.
        """
        (spent, worked_s), (told, told_s) = self._earlier, self._told
        self._earlier = self._told
        missing, wall_s = _beyond(spent, told), max(0.0, worked_s - told_s)
        if not missing.calls and wall_s < self._beat_s / 2:  # what an answer takes to be kept
            return None
        return missing.model_copy(update={"wall_s": wall_s})

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the time inside towards the limit, once where one such stands in another.

        It is on disk with each call, as it passes, and when the block ends.
        """
        if self._since is not None:
            yield
            return
        self._since = self._clock()
        over = threading.Event()
        beats = threading.Thread(target=self._beat, args=(over,), daemon=True)
        beats.start()
        try:
            yield
        finally:
            over.set()
            beats.join()
            self._write("worked")
            self._since = None

    def _beat(self, over: threading.Event) -> None:
        """Write down the time that passed, again and again, until it is over."""
        while not over.wait(self._beat_s):
            with suppress(JournalBroken):  # whoever works meets it with the next line of its own
                self._write("worked")

    def _take(self, line: _Line) -> None:
        self._worked_s += line.worked_s
        if line.kind == "asked":
            self._promised = (line.role, line.cost)
        elif line.kind == "charged":
            self._promised = None
            self._count(line.cost)

    def _break_off(self) -> None:
        """Count a call of which nobody heard any more with the most that it can have cost."""
        if self._promised is not None:
            role, cost = self._promised
            self._write("charged", role, cost)
            self._promised = None
            self._count(cost)

    def _count(self, cost: Cost) -> None:
        self._charges.append(cost)
        self._spent += cost

    def _running(self) -> float:
        return 0.0 if self._since is None else max(0.0, self._clock() - self._since)

    def _write(
        self, kind: _Kind, role: Role | None = None, cost: Cost = _NOTHING, more_s: float = 0.0
    ) -> None:
        """Write a line, with the time of work since the line before; it counts once it is there."""
        with self._writing:
            passed = self._running()
            line = _Line(kind=kind, at=utc_now(), worked_s=passed + more_s, role=role, cost=cost)
            try:
                lines.append(self._ledger, line.model_dump_json().encode())
            except OSError as error:
                raise self._broken("written", error) from error
            if self._since is not None:
                self._since += passed
            self._worked_s += passed + more_s

    def _broken(self, what: str, error: OSError) -> JournalBroken:
        why = error.strerror or error
        return JournalBroken(f"the ledger {self._ledger} cannot be {what}: {why}", hint=_RESUME)


def _beyond(spent: Cost, counted: Cost) -> Cost:
    """Return what of a cost is not counted."""
    unknown = spent.usd is None and counted.usd is not None
    usd = max(0.0, (spent.usd or 0.0) - (counted.usd or 0.0))
    return Cost(
        calls=max(int(unknown), spent.calls - counted.calls),  # of no call the price is unknown
        input_tokens=max(0, spent.input_tokens - counted.input_tokens),
        output_tokens=max(0, spent.output_tokens - counted.output_tokens),
        cache_read_tokens=max(0, spent.cache_read_tokens - counted.cache_read_tokens),
        cache_write_tokens=max(0, spent.cache_write_tokens - counted.cache_write_tokens),
        usd=None if unknown else usd,
        wall_s=max(0.0, spent.wall_s - counted.wall_s),
    )


def _stop(text: str) -> NoReturn:
    raise OutOfBudget(Outcome.OUT_OF_BUDGET, text)


def _read(ledger: Path) -> list[_Line]:
    """Return the whole lines of a ledger, and take the one away that was cut off."""
    try:
        content = ledger.read_bytes()
    except FileNotFoundError:
        return []
    *whole, cut = content.split(b"\n")
    if cut:
        os.truncate(ledger, len(content) - len(cut))
    return [_line(ledger, number, line) for number, line in enumerate(whole, 1)]


def _line(ledger: Path, number: int, line: bytes) -> _Line:
    try:
        return _Line.model_validate_json(line)
    except ValidationError as error:
        raise InvalidInput(
            f"not a line of a ledger: {error.errors(include_url=False)[0]['msg']}",
            at=Location(ledger, number),
            hint="the file was edited or is of another version of fvec",
        ) from error

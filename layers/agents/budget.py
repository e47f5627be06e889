"""What agents may spend and what they spent: a ledger on disk, and hard stops.

A call is written down twice: before it is made, with the most that it can cost, and afterwards
with what it did cost. A call that no second line follows was cut off by the end of its process: it
counts with the most. So the ledger never says less than what a service bills.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias

from pydantic import Field, ValidationError

from layers.agent_settings import BudgetSection, ModelSection, Prices
from layers.agents import lines
from layers.errors import InvalidInput, Location
from layers.record.journal import utc_now
from layers.story import Cost, Outcome, Role, Told

FEWEST_TOKENS = 256  # of a reply: fewer would only be thrown away
_MILLION = 1e6
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
    ) -> None:
        """Read what earlier processes spent; a last line that was cut off is taken away.

        Raises InvalidInput, with the line, where the ledger is not one.
        """
        self._ledger = ledger
        self._limits = limits
        self._clock = clock
        self._charges: list[Cost] = []
        self._spent = Cost(usd=0.0)
        self._promised: tuple[Role | None, Cost] | None = None  # asked for, and not charged
        self._worked_s = 0.0
        self._since: float | None = None  # up to when the work that goes on is counted
        ledger.parent.mkdir(parents=True, exist_ok=True)
        for line in _read(ledger):
            self._take(line)
        self._break_off()

    @property
    def spent(self) -> Cost:
        """All that was charged; its money is unknown where a model has no prices."""
        return self._spent

    @property
    def worked_s(self) -> float:
        """Seconds of work so far, also of the work that goes on."""
        return self._worked_s + self._running()

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
        if self.worked_s >= limits.minutes * 60:
            raise OutOfBudget(
                Outcome.OUT_OF_TIME,
                f"agents have worked for {self.worked_s / 60:.1f} of {limits.minutes:g} minutes",
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

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count the time inside towards the limit, once where one such stands in another.

        It is on disk with each call, and when the block ends.
        """
        if self._since is not None:
            yield
            return
        self._since = self._clock()
        try:
            yield
        finally:
            self._write("worked")
            self._since = None

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

    def _tick(self) -> float:
        """Return the time of work since the last line, and count it."""
        passed = self._running()
        if self._since is not None:
            self._since += passed
        self._worked_s += passed
        return passed

    def _write(self, kind: _Kind, role: Role | None = None, cost: Cost = _NOTHING) -> None:
        line = _Line(kind=kind, at=utc_now(), worked_s=self._tick(), role=role, cost=cost)
        lines.append(self._ledger, line.model_dump_json().encode(), "ledger of agents")


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

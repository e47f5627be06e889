"""Time that passes when somebody sleeps, for what asks GitHub."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from bot.github.api import Clock


@dataclass
class PassingTime:
    """The time, and what was slept."""

    now: datetime = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    slept: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += timedelta(seconds=seconds)

    @property
    def clock(self) -> Clock:
        return Clock(now=lambda: self.now, sleep=self.sleep)

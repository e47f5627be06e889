"""Tables of the benchmarks' own, printed in markdown after those of pytest-benchmark."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks.support import Show
from bot.render.markdown import table

_SHOWN = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin without a table."""
    config.stash[_SHOWN] = []


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print what `show` was given."""
    for text in config.stash[_SHOWN]:
        terminalreporter.write_line(f"\n{text}")


@pytest.fixture
def show(pytestconfig: pytest.Config) -> Show:
    """Return the function that keeps a table for the end of the session's output."""

    def keep(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        body = table(head, rows, right="l" + "r" * (len(head) - 1))
        pytestconfig.stash[_SHOWN].append(f"{title}\n\n{body}")

    return keep

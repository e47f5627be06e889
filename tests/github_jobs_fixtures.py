"""Fixtures of jobs: `pytest_plugins = [..., "tests.github_jobs_fixtures"]` in a test module.

Nothing imports this module: pytest rewrites its assertions when it loads it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.github.fake_github import FakeGitHub
from tests.github.recorded_results import Ran, push_base
from tests.github_jobs import Bot, Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    folder = tmp_path / "program"
    folder.mkdir()
    return Program(folder)


@pytest.fixture
def bot(ran: Ran, program: Program, tmp_path: Path) -> Iterator[Bot]:
    """The bot, on a repository whose recorded run proposes one change."""
    ran.keep(1)
    program.leaves(ran)
    with FakeGitHub() as fake:
        push_base(fake, ran)
        yield Bot(fake, program, tmp_path / "work")

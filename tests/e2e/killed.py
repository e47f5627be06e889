"""A run that is killed while it works."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from layers.events import Silent
from layers.record import journal
from layers.run import RunOptions, run
from tests.e2e.proposals import Proposals


def killed_after(kind: str, layer: Proposals, root: Path, options: RunOptions) -> None:
    """Run in a process of its own, which is killed once the journal holds such an entry.

    The test is skipped where the run ended before.
    """
    pid = os.fork()
    if pid == 0:
        real = journal.Journal.append

        def append(self, now, data):
            entry = real(self, now, data)
            if now == kind:
                os.kill(os.getpid(), signal.SIGKILL)
            return entry

        journal.Journal.append = append
        try:
            run(root, options, Silent(), {layer.name: layer})
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    if not os.WIFSIGNALED(status):
        pytest.skip(f"the run ended before its first {kind}: the machine is too noisy")

"""The program of the load generator's process: one JSON command a line in, one JSON answer out.

`load` starts it by path with `python -P`. The first line of stdin is the set-up, each further line
is a block (`swarm.Plan`). Standard output carries answers and nothing else; standard error is the log.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from pathlib import Path
from typing import IO, Any

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> int:
    """Serve commands until stdin ends."""
    answers = _claim_stdout()
    setup = json.loads(sys.stdin.readline())
    _die_with_parent(setup["parent_pid"])
    # Before any thread exists: threads inherit the affinity.
    os.sched_setaffinity(0, setup["cpus"])
    _patch()
    import numpy as np

    from layers.measure.swarm import BlockFailedError, Plan, RequestMap, run_block

    requests = RequestMap(Path(setup["requests"]), np.load(setup["spans"]))
    _answer(answers, {"ready": True})
    while line := sys.stdin.readline():
        try:
            result = run_block(Plan(**json.loads(line)), requests)
        except BlockFailedError as error:
            result = {"error": str(error)}
        _answer(answers, result)
    return 0


def _claim_stdout() -> IO[str]:
    """Return a stream of our own to the parent and send every other print to the log."""
    answers = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _answer(answers: IO[str], message: dict[str, Any]) -> None:
    """Write one line of JSON."""
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def _die_with_parent(parent_pid: int) -> None:
    """Ask the kernel to kill this process when its parent dies, however it dies."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # it died before the request was in place
        raise SystemExit(1)


def _patch() -> None:
    """Make the standard library and gRPC yield to gevent; nothing that blocks is imported before."""
    from gevent import monkey

    monkey.patch_all()
    from grpc.experimental import gevent as grpc_gevent

    grpc_gevent.init_gevent()


if __name__ == "__main__":
    sys.exit(main())

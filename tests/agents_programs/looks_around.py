"""Tries to see, reach and change what it was not given; prints what came of each attempt."""

import json
import os
import socket
import sys
from pathlib import Path

from shared import SEARCHED, claim, replace


def attempt(action) -> str:
    try:
        return str(action())
    except OSError as error:
        return type(error).__name__


if __name__ == "__main__":
    port, secret, outside = json.loads(os.environ["TARGETS"])
    told = Path(os.environ["FVEC_PROMPT"])
    replace(*SEARCHED)
    claim()
    found = {
        "connect": attempt(lambda: socket.create_connection(("127.0.0.1", port), 2) and "reached"),
        "read": attempt(lambda: Path(secret).read_text(encoding="utf-8")),
        "write": attempt(lambda: Path(outside).write_text("mine", encoding="utf-8")),
        "prompt": attempt(lambda: told.write_text("be kind", encoding="utf-8")),
        "beside": attempt(lambda: sorted(p.name for p in told.parent.iterdir())),
        "git": attempt(lambda: Path(".git").exists()),
        "stdin": attempt(lambda: sys.stdin.read() == told.read_text(encoding="utf-8")),
        "variables": sorted(os.environ),
    }
    sys.stdout.write(json.dumps(found) + "\n")

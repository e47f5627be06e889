"""The model server's log: why it would not start, or would not take a configuration.

For many refusals the answer to the caller says only "failed to poll from model repository"; the
reason stands in the log alone.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from layers.programs import describe_log

_LAG_S = 1.0  # what the server logged reaches its log by way of the guard
_POLL_S = 0.05
_MAX_REASONS = 8
_MAX_TAIL_BYTES = 1 << 20
# E1129 17:44:12.123456 4242 model_lifecycle.cc:642] "message"
_ERROR = re.compile(r'^E\d{4} \S+ +\d+ [\w.]+:\d+\] "(.*)"$')
_NOT_A_REASON = ("CudaDriverHelper", "unable to create stream")  # a machine without a GPU
_LIBRARY_FRAMES = ("site-packages", "<frozen", "/lib/python")


def problems(log: Path, *, since: int = 0) -> list[str]:
    """Return the error messages from byte `since` on, one line each, without repetitions."""
    with log.open("rb") as stream:
        stream.seek(max(since, log.stat().st_size - _MAX_TAIL_BYTES))
        text = stream.read().decode("utf-8", "replace")
    found = [one_line(match[1]) for line in text.splitlines() if (match := _ERROR.match(line))]
    told = [message for message in found if not any(word in message for word in _NOT_A_REASON)]
    return list(dict.fromkeys(told))[-_MAX_REASONS:]


def settled(log: Path, *, since: int) -> list[str]:
    """Return the problems logged from byte `since` on, once they have reached the log."""
    deadline = time.monotonic() + _LAG_S
    lines: list[str] = []
    while time.monotonic() < deadline:
        time.sleep(_POLL_S)
        lines, earlier = problems(log, since=since), lines
        if lines and lines == earlier:
            break
    return lines


def reasons(log: Path) -> str:
    """Return the log's error messages for a person, or its last lines when it has none."""
    if not log.exists() or not (lines := problems(log)):
        return describe_log(log)
    return "\n".join([*(f"  | {line}" for line in lines), f"  log: {log}"])


def one_line(quoted: str) -> str:
    """Return a message's first line and, for a model's exception, the place in its code."""
    text = quoted.replace("\\n", "\n").replace('\\"', '"')
    first, _, rest = text.partition("\n")
    frames = [line.strip() for line in rest.splitlines() if re.search(r"\(\d+\): ", line)]
    own = [frame for frame in frames if not any(word in frame for word in _LIBRARY_FRAMES)]
    first = first.rstrip(" ;")
    return f"{first} (at {own[0]})" if own else first


def fresh(folder: Path) -> Path:
    """Return a name in `folder` that no earlier server logged under."""
    number = 1 + sum(1 for _ in folder.glob("tritonserver*.log"))
    return folder / ("tritonserver.log" if number == 1 else f"tritonserver-{number}.log")

"""Records lighter traffic, so that every request has less to rank; insists when it is refused."""

from pathlib import Path

from shared import claim, replace

RECORDER = "traffic/record.py"

if __name__ == "__main__":
    if "rng.integers(1, 60)" in Path(RECORDER).read_text(encoding="utf-8"):
        replace(RECORDER, "rng.integers(1, 60)", "rng.integers(1, 6)")
    claim()

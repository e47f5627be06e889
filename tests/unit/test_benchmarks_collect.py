"""The micro benchmarks still run: the quick ones once each, without being timed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_benchmark_is_collected_and_the_quick_ones_run() -> None:
    command = [sys.executable, "-m", "pytest", "benchmarks", "-p", "no:cacheprovider"]
    command += ["--benchmark-disable", "-k", "knowledge or look or compare"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout

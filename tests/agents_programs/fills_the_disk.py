"""Writes files until it is ended."""

import itertools
from pathlib import Path

for number in itertools.count():
    Path(f"file-{number}").write_bytes(bytes(2**20))

"""Makes the good edit and writes what it is given as its claim; given nothing, it writes none."""

import sys
from pathlib import Path

from shared import CLAIM, SEARCHED, replace

if __name__ == "__main__":
    replace(*SEARCHED)
    if len(sys.argv) > 1:
        Path(CLAIM).write_text(sys.argv[1], encoding="utf-8")

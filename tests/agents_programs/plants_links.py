"""Makes its claim, or a file of the change, a link to a file outside; fifos and folders, too."""

import os
import sys
from pathlib import Path

from shared import CLAIM, SEARCHED, claim, replace

if __name__ == "__main__":
    kind, target = sys.argv[1:]
    replace(*SEARCHED)
    if kind == "claim":
        Path(CLAIM).symlink_to(target)
    elif kind == "fifo":
        os.mkfifo(CLAIM)
    elif kind == "folder":
        Path(CLAIM, "below").mkdir(parents=True)
    else:
        claim()
        Path("models/tiny_features/1/table.bin").symlink_to(target)

"""Makes its claim, or a file of the change, a link to a file outside; fifos and folders, too.

Some folders are deeper than what removes them may recurse, or closed to whoever clears up.
"""

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
    elif kind == "deep":
        for _ in range(1500):
            Path(CLAIM).mkdir()
            os.chdir(CLAIM)
    elif kind == "closed":
        claim()
        for folder in ("models/tiny_features/1", "models", "."):
            Path(folder).chmod(0)
    else:
        claim()
        Path("models/tiny_features/1/table.bin").symlink_to(target)

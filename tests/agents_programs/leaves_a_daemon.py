"""Ends well, and leaves a process behind that is to go on editing."""

import os
import subprocess
import sys

from shared import SEARCHED, claim, replace

LATER = """
import time
from pathlib import Path
for number in range(600):
    time.sleep(1)
    Path(f"later-{number}").write_text("still here")
"""

if __name__ == "__main__":
    replace(*SEARCHED)
    claim()
    argv = [sys.executable, "-c", LATER, os.environ["MARKER"]]
    subprocess.Popen(argv, start_new_session=True)

"""Edits, leaves a process in a session of its own, and never ends; a polite signal is ignored."""

import os
import signal
import subprocess
import sys
import time

from shared import SEARCHED, claim, replace

if __name__ == "__main__":
    replace(*SEARCHED)
    claim()
    marker = os.environ["MARKER"]
    asleep = [sys.executable, "-c", "import time; time.sleep(600)", marker]
    subprocess.Popen(asleep, start_new_session=True)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)

"""Edits, then gives up with an error."""

import sys

from shared import SEARCHED, claim, replace

if __name__ == "__main__":
    replace(*SEARCHED)
    claim()
    sys.exit("no such model: agent-9000")

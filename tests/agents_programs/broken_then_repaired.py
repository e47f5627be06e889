"""Ranks one too low at first; repairs that once it is told that answers differ."""

import sys

from shared import FEATURES, SEARCHED, claim, prompt, replace

WRONG = f"{SEARCHED[2]} - 1"

if __name__ == "__main__":
    if "What became of the round before" not in prompt():
        replace(FEATURES, SEARCHED[1], WRONG)
    elif "outputs_differ" in prompt():
        replace(FEATURES, WRONG, SEARCHED[2])
    else:
        sys.exit("the prompt does not say what was wrong")
    claim()

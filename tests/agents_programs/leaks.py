"""Was given a key, prints it, and writes it where the word that it is started with says."""

import os
import sys

from shared import FEATURES, SEARCHED, claim, replace

if __name__ == "__main__":
    key = os.environ["AGENT_API_KEY"]
    sys.stdout.write(f"my key is {key}\n")
    replace(*SEARCHED)
    if sys.argv[1] == "code":
        replace(FEATURES, "# of clicks, from last month's report", f"# {key}")
        claim()
    else:
        claim(falsifier=f"whoever reads this learns that the key is {key}")
    sys.exit(0 if sys.argv[1] != "error" else f"refused: {key}")

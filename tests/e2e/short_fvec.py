"""`fvec` with short blocks and one given change: what tests of whole jobs measure with.

    short_fvec.py run|verify|judge ...

A program of its own, for the bot starts what measures as one. All else is the real thing.
"""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from bot import cli
from layers import run, session
from layers.loop import instruments
from layers.measure.sustained import Budget
from layers.trial import calibrate, equivalence, verify
from tests.e2e.proposals import FEATURES, SEARCHED, Proposals, replaced


def main(argv: list[str]) -> int:
    session.BLOCK_S, session.PROFILE_S, session.SLO_REQUESTS = 0.4, 1.0, 200
    calibrate.LAUNCHES, equivalence.RECORDED, equivalence.MUTATED = 1, 40, 20
    verify.CONFIRMING = 2
    instruments.TOTAL_BUDGET = Budget(windows=2, window_s=1.0)
    layer = Proposals({"rank-by-search": lambda stack: replaced(stack, FEATURES, *SEARCHED)})
    run.run = partial(run.run, registry={layer.name: layer})
    return cli.main(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

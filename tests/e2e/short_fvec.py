"""`fvec` with short blocks and one given change: what tests of whole jobs measure with.

    short_fvec.py REPORTS run|verify|judge ...

A program of its own, for the bot starts what measures as one. All else is the real thing. Reports
are kept in the folder REPORTS, too: a job keeps none that its pull requests do not need.
"""

import shutil
import sys
import uuid
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from bot import cli
from layers import run, session
from layers.loop import instruments
from layers.measure.sustained import Budget
from layers.trial import calibrate, equivalence, verify
from tests.e2e.proposals import FEATURES, SEARCHED, Proposals, replaced


def main(reports: Path, argv: list[str]) -> int:
    session.BLOCK_S, session.PROFILE_S, session.SLO_REQUESTS = 0.4, 1.0, 200
    calibrate.LAUNCHES, equivalence.RECORDED, verify.CONFIRMING = 1, 40, 2
    instruments.TOTAL_BUDGET = Budget(windows=2, window_s=1.0)
    layer = Proposals({"rank-by-search": lambda stack: replaced(stack, FEATURES, *SEARCHED)})
    run.run = partial(run.run, registry={layer.name: layer})
    code = cli.main(argv)
    report = Path(argv[argv.index("--out") + 1], f"{argv[0]}.json")
    if report.is_file():
        reports.mkdir(exist_ok=True)
        shutil.copyfile(report, reports / f"{uuid.uuid4()}.json")
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))

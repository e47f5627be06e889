"""200 kill points over a replayed run: `make survive`. Prints one line a kind of moment.

    python -P tests/survival/runner.py [--points N] [--out FILE] [--workers K]

Exit code 1 when a run did not come to the same result; what it left is then kept.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
import tempfile
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.survival import lives, points


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path(".fvec/survive.json"))
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    began = lives.now_s()
    folder = Path(tempfile.mkdtemp(prefix="survive-"))
    lives.preload(folder)
    uncut = points.uncut_run(folder / "uncut")
    chosen = list(points.chosen(uncut, args.points))
    workers = [_worker(chosen[k :: args.workers], uncut, folder, k) for k in range(args.workers)]
    for pid in workers:
        os.waitpid(pid, 0)
    results = [
        json.loads(line)
        for k in range(args.workers)
        for line in (folder / f"results-{k}.jsonl").read_text().splitlines()
    ]
    wall_s = lives.now_s() - began
    args.out.parent.mkdir(parents=True, exist_ok=True)
    summary = {
        "points": len(results),
        "moments": uncut.moments,
        "wall_s": round(wall_s, 1),
        "cpu_s": round(_cpu_s(), 1),
    }
    args.out.write_text(json.dumps({**summary, "results": results}, indent=1) + "\n")
    return _report(results, summary, len(chosen), folder)


def _worker(chosen: list[points.Point], uncut: points.Uncut, folder: Path, number: int) -> int:
    """Try the points in a process of its own; return its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        with (folder / f"results-{number}.jsonl").open("w") as file:
            for point in chosen:
                file.write(json.dumps(asdict(points.tried(point, uncut, folder))) + "\n")
                file.flush()
        code = 0
    finally:
        os._exit(code)


def _report(results: list[dict], summary: dict, wanted: int, folder: Path) -> int:
    by_kind = defaultdict(list)
    for result in results:
        by_kind[result["kind"]].append(result)
    for kind, found in sorted(by_kind.items()):
        same = sum(not result["wrong"] for result in found)
        _say(f"{kind:20} {len(found):4} points, {same:4} to the same result")
    wrong = [result for result in results if result["wrong"]]
    for result in wrong:
        _say(f"point {result['point']}, left in {folder}: {result['wrong']}")
    killed = sum(result["killed"] for result in results)
    _say(
        f"{len(results)} of {wanted} points, {killed} processes killed, "
        f"{len(results) - len(wrong)} resumed to the same result; "
        f"{summary['moments']} moments in a run, {summary['wall_s']} s, {summary['cpu_s']} s of CPU"
    )
    failed = bool(wrong) or len(results) != wanted
    if not failed:
        shutil.rmtree(folder)
    return int(failed)


def _cpu_s() -> float:
    """Return the CPU seconds of this process and of all lives."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())

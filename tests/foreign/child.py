"""Runs inside the sandbox: `child.py JOB.json`. Versions of one program over the same requests.

The job names the folder of each version, the first being the original; the result is written
beside it. Nothing here judges: the parent reads counts and CPU seconds.
"""

import importlib.util
import json
import sys
import time
from pathlib import Path

import arms
import draw
import numpy as np
from caught import Caught

SIZES = (8, 256, 2000)  # rows
SHORTEST_S = 0.002  # of a timed stretch: several calls where one is quicker
LONGEST_S = 0.3  # of one call: larger sizes are then left out
STRETCH_LIMIT_S = 20.0  # of all pairs of one size and version


def main(job_path):
    job = json.loads(Path(job_path).read_text())
    result = {}
    with Caught() as caught:  # of a stranger's import or initialize
        run(job, result)
    if caught.error is not None:
        result["failed"] = caught.text()[:300]
    Path(job["result"]).write_text(json.dumps(result))


def run(job, result):
    arms.install(job["stubs"])
    prepared = prepare(job)
    config = getattr(prepared, "CONFIG", None) or job["config"]
    arms.SERVER["InferenceRequest"].answer = getattr(prepared, "answer", None)
    versions = {name: arms.Arm(folder, config) for name, folder in job["versions"].items()}
    words = getattr(prepared, "WORDS", None) or draw.words_of(*job["sources"])
    drawer = draw.Drawer(config, words, getattr(prepared, "INTEGERS", (0, 10)))
    drawer.request = getattr(prepared, "request", None) or drawer.request
    result["compared"] = compare(job, versions, drawer)
    result["timed"] = timed(job, versions, drawer)


def prepare(job):
    """Run the program's own preparation, if a person wrote one: files, stand-ins, words."""
    path = Path(job["prepare"])
    if not path.is_file():
        return None
    spec = importlib.util.spec_from_file_location("prepared", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if hasattr(module, "prepare"):
        for folder in job["versions"].values():
            module.prepare(Path(folder))
    return module


def compare(job, versions, drawer):
    """Count, for each version, requests with the same outcome as the original's."""
    original = versions["original"]
    counts = {name: {"same": 0, "differ": [], "raised": 0, "unsteady": 0} for name in versions}
    for number in range(job["requests"]):
        rng = np.random.default_rng([job["seed"], number])
        drawn = [drawer.request(rng) for _ in range(1 + (number % 5 == 0))]
        expected = original.outcome(drawn, number)
        steady = original.outcome(drawn, number) == expected
        for name, version in versions.items():
            count = counts[name]
            found = version.outcome(drawn, number)
            count["raised"] += isinstance(expected[0], tuple)
            if not steady:
                count["unsteady"] += 1
            elif found == expected:
                count["same"] += 1
            elif len(count["differ"]) < 5:
                count["differ"].append([number, repr(expected)[:600], repr(found)[:600]])
            else:
                count["differ"].append([number])
    return counts


def timed(job, versions, drawer):
    """Return CPU seconds of the original and of each version in interleaved pairs, by rows."""
    found = {name: {} for name in versions if name != "original"}
    for rows in SIZES:
        rng = np.random.default_rng([job["seed"], rows])
        try:
            drawn = [drawer.request(rng, rows, "tame")]
        except MemoryError:
            break
        original = versions["original"]
        if isinstance(original.outcome(drawn, 0)[0], tuple):
            continue
        once_s = original.cpu_s(drawn, 0, 1)
        if once_s > LONGEST_S:
            break
        for name, pairs in found.items():
            pairs[rows] = paired(original, versions[name], drawn, once_s, job["pairs"])
    return found


def paired(original, version, drawn, once_s, most):
    calls = max(1, int(np.ceil(SHORTEST_S / max(once_s, 1e-7))))
    rng = np.random.default_rng(most)
    end, pairs = time.monotonic() + STRETCH_LIMIT_S, []
    version.cpu_s(drawn, 0, calls)
    while len(pairs) < most and time.monotonic() < end:
        if rng.random() < 0.5:
            first, second = original.cpu_s(drawn, 0, calls), version.cpu_s(drawn, 0, calls)
        else:
            second, first = version.cpu_s(drawn, 0, calls), original.cpu_s(drawn, 0, calls)
        pairs.append((first, second))
    return pairs


if __name__ == "__main__":
    main(sys.argv[1])

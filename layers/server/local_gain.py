"""The local gain of the native string reader, in the model server's own interpreter."""

from __future__ import annotations

import json
import shutil
import tempfile
from itertools import chain, islice
from pathlib import Path

import numpy as np
from scipy import stats

from layers.base import StackView
from layers.errors import InvalidInput
from layers.evidence import LocalGain
from layers.programs import ONE_THREAD, Command, run_logged, scrubbed_environment
from layers.traffic.recorded import Traffic, decode

NATIVE = Path(__file__).parent / "native"
STRINGS = 2000  # per tensor: one for each candidate of a large request
ROUNDS = 31
_SAMPLED_REQUESTS = 64
_TIMEOUT_S = 120.0
_UTILS = "lib/python3*/site-packages/pytriton/tritonserver/backends/python"
_UTILS_FILE = "triton_python_backend_utils.py"


def measure(package: Path, stack: StackView, seed: int) -> LocalGain | None:
    """Return the median ratio of CPU time per round, the server's function over `package`'s.

    Tensors hold STRINGS random strings with lengths drawn from the recorded traffic. The interval
    is the 95 % one of order statistics. None where the server's own function is not on this
    machine or the traffic holds no strings. Raises ToolFailed when the comparison breaks or the
    two do not return the same strings.
    """
    utils = server_utilities(stack.server_python)
    lengths = string_lengths(stack)
    if utils is None or not lengths:
        return None
    drawn = np.random.default_rng(seed).choice(lengths, STRINGS).tolist()
    folder = Path(tempfile.mkdtemp(prefix="fvec-strings-"))  # stays, with its log, on failure
    (folder / "lengths.json").write_text(json.dumps(drawn))
    argv = [
        *(str(stack.server_python), "-I", str(NATIVE / "bench.py")),
        *("--utils", str(utils), "--package", str(package), "--lengths", "lengths.json"),
        *("--output", "cpu_s.json", "--rounds", str(ROUNDS), "--seed", str(seed)),
    ]
    env = scrubbed_environment(home=folder) | ONE_THREAD
    command = Command(argv, folder, env, _TIMEOUT_S)
    run_logged(command, folder / "bench.log", "the comparison of string conversions")
    gain = summarise(json.loads((folder / "cpu_s.json").read_text(encoding="utf-8")))
    shutil.rmtree(folder)
    return gain


def summarise(result: dict[str, object]) -> LocalGain:
    """Turn the rounds of `native/bench.py` into a gain."""
    cpu_s = np.asarray(result["cpu_s"], dtype=np.float64)
    ratios = cpu_s[:, 0] / cpu_s[:, 1]
    interval = stats.quantile_test(ratios, p=0.5).confidence_interval(0.95)
    by = "in C" if result["is_native"] else "in Python, for the extension was not built"
    what = f"read a tensor of {result['strings']} strings {by}, CPU time per call, interleaved"
    ci = (float(interval.low), float(interval.high))
    return LocalGain(what=what, speedup=float(np.median(ratios)), ci=ci, n=len(ratios))


def server_utilities(python: Path) -> Path | None:
    """Return the server's own Python module in the environment of `python`."""
    return next(python.parent.parent.glob(f"{_UTILS}/{_UTILS_FILE}"), None)


def string_lengths(stack: StackView) -> list[int]:
    """Return the lengths in bytes of the strings in the first recorded requests."""
    traffic = Traffic.load(stack.root, stack.manifest.traffic)
    try:
        decoded = map(decode, islice(traffic.requests, _SAMPLED_REQUESTS))
        tensors = chain.from_iterable(request.values() for request in decoded)
        strings = (t.ravel().tolist() for t in tensors if t.dtype == np.object_)
        return [len(string) for string in chain.from_iterable(strings)]
    except ValueError as error:
        raise InvalidInput(f"a recorded request cannot be read: {error}") from error

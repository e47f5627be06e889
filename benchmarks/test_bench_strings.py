"""String tensors: the server's own Python function, our C extension, our Python fallback.

Two views. Times per call come from pytest-benchmark, one arm after the other in this interpreter.
The ratios that the README quotes come from the model server's interpreter, arms interleaved on
fresh tensors (`layers/server/native/bench.py`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.support import Show, once
from bot.render import numbers
from layers.errors import Missing
from layers.programs import ONE_THREAD, Command, run_logged, scrubbed_environment
from layers.server.local_gain import NATIVE, ROUNDS, server_utilities, summarise
from layers.server.native import bench
from layers.triton.environment import ensure

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "ads-serving"
SIZES = (16, 100, 2_000, 20_000)
SHORTEST, LONGEST = 0, 20  # bytes of a string; their mean is that of the example's traffic
SEED = 7
TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Workshop:
    """The server's interpreter and module, and our package twice."""

    python: Path
    utils: Path
    native: Path  # with the extension built
    fallback: Path  # without it


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    """Return what is compared; one build serves both interpreters, which are of one series."""
    try:
        server = ensure(EXAMPLE / "requirements.txt", allow_install=False)
    except Missing as error:
        pytest.skip(error.message)
    utils = server_utilities(server.python)
    if utils is None:
        pytest.skip("this server environment has no triton_python_backend_utils.py")
    folder = tmp_path_factory.mktemp("strings")
    made = Workshop(server.python, utils, folder / "native", folder / "fallback")
    for package in (made.native, made.fallback):
        package.mkdir()
        for name in ("__init__.py", "_bytes.c", "build.py"):
            shutil.copy(NATIVE / name, package)
    argv = [str(server.python), "-I", str(made.native / "build.py")]
    command = Command(argv, made.native, scrubbed_environment(home=made.native), TIMEOUT_S)
    run_logged(command, folder / "build.log", "the build of the string reader")
    return made


@pytest.fixture(scope="module")
def arms(workshop: Workshop) -> Mapping[str, bench.Convert]:
    """Return the three functions, loaded into this interpreter."""
    native = bench.load("fvec_native_benchmarked", workshop.native / "__init__.py")
    if not native.IS_NATIVE:
        pytest.fail("the extension was built and cannot be loaded")
    server = bench.load("triton_python_backend_utils_benchmarked", workshop.utils)
    return {
        "server": server.deserialize_bytes_tensor,
        "native": native.deserialize_bytes_tensor,
        "fallback": native.deserialize_in_python,
    }


def lengths(strings: int) -> list[int]:
    """Return seeded lengths in bytes."""
    drawn: list[int] = np.random.default_rng(SEED).integers(SHORTEST, LONGEST + 1, strings).tolist()
    return drawn


@pytest.mark.parametrize("strings", SIZES)
@pytest.mark.parametrize("arm", ["server", "native", "fallback"])
def test_read_strings(
    benchmark: BenchmarkFixture, arms: Mapping[str, bench.Convert], arm: str, strings: int
) -> None:
    """Time one arm; what it returns is compared with what the server's function returns."""
    benchmark.group = f"read a tensor of {strings:,} strings"
    tensor = bench.encoded(lengths(strings), np.random.default_rng(SEED))
    result = benchmark(arms[arm], tensor)
    if not bench.equal(result, arms["server"](tensor)):
        pytest.fail(f"{arm} does not return the server's strings")


def compared(workshop: Workshop, package: Path, strings: int, folder: Path) -> dict[str, Any]:
    """Return the rounds of `bench.py`: CPU seconds of the server's function and of `package`."""
    folder.mkdir()
    (folder / "lengths.json").write_text(json.dumps(lengths(strings)))
    argv = [
        *(str(workshop.python), "-I", str(NATIVE / "bench.py")),
        *("--utils", str(workshop.utils), "--package", str(package), "--lengths", "lengths.json"),
        *("--output", "cpu_s.json", "--rounds", str(ROUNDS), "--seed", str(SEED)),
    ]
    env = scrubbed_environment(home=folder) | ONE_THREAD
    run_logged(Command(argv, folder, env, TIMEOUT_S), folder / "bench.log", "the comparison")
    found: dict[str, Any] = json.loads((folder / "cpu_s.json").read_text())
    return found


def ratio_rows(workshop: Workshop, folder: Path) -> list[list[str]]:
    """Return one table row per number of strings."""
    rows = []
    for strings in SIZES:
        row, times_us = [f"{strings:,}"], [""] * 3
        for place, package in enumerate((workshop.native, workshop.fallback), start=1):
            result = compared(workshop, package, strings, folder / f"{strings}-{package.name}")
            gain = summarise(result)
            medians = 1e6 * np.median(np.asarray(result["cpu_s"]), axis=0)
            times_us[0], times_us[place] = map(numbers.number, medians.tolist())
            row.append(numbers.times_between(gain.speedup, gain.ci))
        rows.append([*row, *times_us, str(gain.n)])
    return rows


def test_ratio_in_the_server_interpreter(
    benchmark: BenchmarkFixture, workshop: Workshop, tmp_path: Path, show: Show
) -> None:
    """Compare both packages with the server's function, interleaved, and show the ratios."""
    rows = once(benchmark, ratio_rows, workshop, tmp_path)
    head = ["strings per tensor", "server over native", "server over fallback"]
    head += ["server \N{MICRO SIGN}s", "native \N{MICRO SIGN}s", "fallback \N{MICRO SIGN}s"]
    show(
        f"**String conversion** in the model server's interpreter: strings of {SHORTEST} to "
        f"{LONGEST} bytes, CPU time per call, arms interleaved on fresh tensors; median of the "
        "rounds' ratios with its 95 % interval. The clock's own cost, tenths of a microsecond, is "
        "in every call.",
        [*head, "rounds"],
        rows,
    )

"""The functions that a published case made faster, and what the codemods do to code of their shape.

    python benchmarks/published.py          prints the table; about a minute

Each program under `published_shapes` does one of them and nothing else. It is rewritten by its
codemod, never by hand; both versions answer the same requests in one process, interleaved, and
every answer is compared. What is timed is the whole `execute`, with the stand-in for the server's
module, by the CPU time of the thread. The published figures are of other code on other machines.
"""

from __future__ import annotations

import importlib.util
import runpy
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy import stats

from bot.render import numbers
from bot.render.markdown import table
from layers.features.codemod import File
from layers.features.codemods.table import CODEMODS

HERE = Path(__file__).parent
MODULE = "triton_python_backend_utils"
SHAPES = HERE / "published_shapes"
STAND_IN = HERE.parent / "tests" / "unit" / "test_features_programs" / f"{MODULE}.py"
ROWS = (8, 256, 2_000)
COLUMNS = 180  # the published case has that many sites
PAIRS = 40
SHORTEST_S = 0.002  # of a timed stretch
SEED = 7


class Tensor(Protocol):
    """What the stand-in's tensor shows of what leaves the server."""

    kind: str

    def name(self) -> str:
        """Return its name."""

    def as_numpy(self) -> npt.NDArray[Any]:
        """Return its array."""

    def sent(self) -> bytes:
        """Return its bytes on the wire."""


class Response(Protocol):
    """An answer of a program."""

    def output_tensors(self) -> list[Tensor]:
        """Return its tensors."""


class Model(Protocol):
    """A program of the Python backend."""

    def execute(self, requests: Sequence[object]) -> list[Response]:
        """Answer requests."""


Array = npt.NDArray[Any]
Inputs = list[tuple[str, Array]]
Draw = Callable[[np.random.Generator, int], Inputs]


@dataclass(frozen=True, slots=True)
class Case:
    """One published function: what it was called, its ratio, our program and codemod."""

    name: str
    published: str
    shape: str
    codemod: str
    draw: Draw
    needs: str = ""  # a package that may be absent


@dataclass(frozen=True, slots=True)
class Measured:
    """CPU seconds of `execute`, before over after: median of the pairs, with its 95 % interval."""

    ratio: float
    ci: tuple[float, float]
    pairs: int
    before_us: float
    after_us: float


def _moments(rng: np.random.Generator, rows: int) -> Inputs:
    seconds = rng.integers(1_600_000_000, 1_800_000_000, rows)
    texts = np.datetime_as_string(seconds.astype("datetime64[s]"))
    return [("AT", _objects([str(text).replace("T", " ").encode() for text in texts]))]


def _columns(rng: np.random.Generator, rows: int) -> Inputs:
    return [
        (f"C{n}", rng.gamma(1.0, 300.0, rows).astype(np.float32).reshape(rows))
        for n in range(COLUMNS)
    ]


def _titles(rng: np.random.Generator, rows: int) -> Inputs:
    letters = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz    SALE", np.uint8)
    lengths = rng.integers(0, 21, rows)
    return [("TITLES", _objects([rng.choice(letters, n).tobytes() for n in lengths]))]


def _words(rng: np.random.Generator, rows: int) -> Inputs:
    return [("WORDS", _objects([f"word-{n}".encode() for n in rng.integers(0, 60_000, rows)]))]


def _objects(items: Sequence[bytes]) -> Array:
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


CASES = (
    Case(
        "reading datetimes with pandas", "350", "datetimes", "fixed_datetimes", _moments, "pandas"
    ),
    Case("reading datetimes with strptime", "", "strptime", "fixed_datetimes", _moments),
    Case("assigning features one by one", "25.1", "assignment", "frame_values", _columns, "pandas"),
    Case("bytes to text", "12.4", "texts", "decode_loops", _titles),
    Case("bytes to text, np.vectorize", "", "texts_vectorized", "decode_loops", _titles),
    Case(f"ufuncs on {COLUMNS} columns", "about 8", "ufuncs", "ufunc_batches", _columns),
    Case("look-ups row by row", "4.4 to 5.8", "lookups", "vocabulary_lookups", _words),
)


def is_here(case: Case) -> bool:
    """Return whether the packages of the program and its codemod are here."""
    found = not case.needs or importlib.util.find_spec(case.needs) is not None
    return found and case.codemod in CODEMODS


def measure(case: Case, rows: int, pairs: int = PAIRS) -> Measured:
    """Time both versions of a program on fresh requests of `rows` rows.

    Raises ValueError where the codemod leaves the program, or where an answer changes.
    """
    before = (SHAPES / f"{case.shape}.py.txt").read_text()
    after = CODEMODS[case.codemod].apply(File("models/m/1/model.py", before))
    if after == before:
        raise ValueError(f"{case.codemod} leaves {case.shape} as it is")
    server = runpy.run_path(str(STAND_IN))
    inputs = case.draw(np.random.default_rng(SEED), rows)
    with _server_module(server), TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas complains of the shape that is measured
        models = [_model(text, Path(folder)) for text in (before, after)]
        if _sent(models[0], server, inputs) != _sent(models[1], server, inputs):
            raise ValueError(f"{case.codemod} changed an answer of {case.shape}")
        cpu_s = _interleaved(models, server, inputs, pairs)
    return _summarised(cpu_s)


@contextmanager
def _server_module(server: Mapping[str, Any]) -> Iterator[None]:
    module = types.ModuleType(MODULE)
    vars(module).update(server)
    saved = sys.modules.get(MODULE)
    sys.modules[MODULE] = module
    try:
        yield
    finally:
        del sys.modules[MODULE]
        if saved is not None:
            sys.modules[MODULE] = saved


def _model(text: str, folder: Path) -> Model:
    path = folder / "model.py"
    path.write_text(text)
    made: Model = runpy.run_path(str(path))["TritonPythonModel"]()
    if hasattr(made, "initialize"):
        made.initialize({})
    return made


def _request(server: Mapping[str, Any], inputs: Inputs) -> object:
    tensors = [server["Tensor"].received(name, array.copy()) for name, array in inputs]
    made: object = server["InferenceRequest"](inputs=tensors)
    return made


def _sent(model: Model, server: Mapping[str, Any], inputs: Inputs) -> list[object]:
    (response,) = model.execute([_request(server, inputs)])
    tensors = response.output_tensors()
    return [(t.name(), t.kind, t.as_numpy().shape, t.sent()) for t in tensors]


def _interleaved(
    models: Sequence[Model], server: Mapping[str, Any], inputs: Inputs, pairs: int
) -> npt.NDArray[np.float64]:
    """Return CPU seconds a call, a row a pair, the original first; the order in a pair is drawn."""
    once_s = min(_cpu_s(models[0], server, inputs, 1) for _ in range(3))
    calls = max(1, int(np.ceil(SHORTEST_S / max(once_s, 1e-6))))
    rng = np.random.default_rng(SEED)
    cpu_s = np.empty((pairs, 2))
    for row in cpu_s:
        for arm in rng.permutation(2):
            row[arm] = _cpu_s(models[arm], server, inputs, calls)
    return cpu_s


def _cpu_s(model: Model, server: Mapping[str, Any], inputs: Inputs, calls: int) -> float:
    batches = [[_request(server, inputs)] for _ in range(calls)]
    begun = time.thread_time()
    for batch in batches:
        model.execute(batch)
    return (time.thread_time() - begun) / calls


def _summarised(cpu_s: npt.NDArray[np.float64]) -> Measured:
    ratios = cpu_s[:, 0] / cpu_s[:, 1]
    interval = stats.quantile_test(ratios, p=0.5).confidence_interval(0.95)
    before_us, after_us = (1e6 * np.median(cpu_s, axis=0)).tolist()
    ci = (float(interval.low), float(interval.high))
    return Measured(float(np.median(ratios)), ci, len(ratios), before_us, after_us)


HEAD = ("function", "published", *(f"ours, {rows:,} rows" for rows in ROWS), "codemod")


def rows_of_table(pairs: int = PAIRS) -> list[list[str]]:
    """Return a row per published function; what cannot run here says why."""
    found = []
    for case in CASES:
        published = f"{case.published}\N{MULTIPLICATION SIGN}" if case.published else numbers.ABSENT
        if is_here(case):
            timed = [measure(case, rows, pairs) for rows in ROWS]
            cells = [numbers.times_between(each.ratio, each.ci) for each in timed]
        else:
            why = f"{case.needs} is not here" if case.needs else "no such codemod"
            cells = [why, *[numbers.ABSENT] * (len(ROWS) - 1)]
        found.append([case.name, published, *cells, f"`{case.codemod}`"])
    return found


def main() -> int:
    """Print the table; return the exit code."""
    body = table(HEAD, rows_of_table(), right="lrrrrl")
    sys.stdout.write(f"{body}\n\n{PAIRS} pairs a cell; median with its 95 % interval.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

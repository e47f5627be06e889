"""Which tool wrote a file, and what it says: `read_benchmark`."""

from __future__ import annotations

import json
from pathlib import Path

from layers.bench_files import aiperf, guidellm, sglang, vllm
from layers.bench_files.fields import Place
from layers.bench_files.result import BenchmarkResult
from layers.errors import InvalidInput, Location

READERS = (guidellm, aiperf, sglang, vllm)
MOST_BYTES = 256 << 20  # reports with every request in them are large
_KNOWN = (
    "the JSON of `vllm bench serve --save-result`, the JSONL of SGLang's bench_serving, "
    "profile_export_aiperf.json or .csv, or GuideLLM's benchmarks.json"
)


def read_benchmark(path: Path, number: int | None = None) -> BenchmarkResult:
    """Return the run of a file, or its run `number` (from 1) where it holds several.

    Raises InvalidInput: not readable, of no known tool, a value that is wrong (with its place), or several
    runs and no number.
    """
    runs = read_all(path)
    at = Location(path)
    if number is None and len(runs) > 1:
        loads = "; ".join(f"{run.number}: {_load(run)}" for run in runs[:20])
        raise InvalidInput(f"holds {len(runs)} runs", at=at, hint=f"name one: {loads}")
    if number is not None and not 1 <= number <= len(runs):
        raise InvalidInput(f"has no run {number}: it holds {len(runs)}", at=at)
    return runs[(number or 1) - 1]


def read_all(path: Path) -> list[BenchmarkResult]:
    """Return every run of a file; raises InvalidInput."""
    text = _text(path)
    if aiperf.is_csv(text):
        return aiperf.read_csv(text, Place(path))
    runs: list[BenchmarkResult] = []
    for place, document in _documents(text, path):
        for reader in READERS:
            if isinstance(document, dict) and reader.matches(document):
                runs += reader.read(document, place, len(runs) + 1)
                break
        else:
            raise place.refuse("is no result of a load generator that is known", f"known: {_KNOWN}")
    if not runs:
        raise InvalidInput("is empty", at=Location(path), hint=f"known: {_KNOWN}")
    return runs


def _documents(text: str, path: Path) -> list[tuple[Place, object]]:
    """Return the documents of a file: one that fills it, a list of them, or one a line."""
    try:
        whole = json.loads(text)
    except json.JSONDecodeError as error:
        lines = [(n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]
        if len(lines) < 2 or error.msg != "Extra data":
            raise _not_json(path, error) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"not JSON that can be read: {error}", at=Location(path)) from error
    else:
        if isinstance(whole, list):  # what a sweep of vLLM collects
            return [(Place(path, inside=(index,)), one) for index, one in enumerate(whole)]
        return [(Place(path), whole)]
    return [(Place(path, number), _line(line, path, number)) for number, line in lines]


def _line(line: str, path: Path, number: int) -> object:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise _not_json(path, error, number) from error
    except (ValueError, RecursionError) as error:
        at = Location(path, number)
        raise InvalidInput(f"not JSON that can be read: {error}", at=at) from error


def _not_json(path: Path, error: json.JSONDecodeError, line: int | None = None) -> InvalidInput:
    at = Location(path, line or error.lineno, error.colno)
    return InvalidInput(f"not JSON: {error.msg}", at=at, hint=f"known: {_KNOWN}")


def _text(path: Path) -> str:
    """Return the text of a file of bounded size. Raises InvalidInput."""
    at = Location(path)
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidInput(error.strerror or "cannot be read", at=at) from error
    if len(content) > MOST_BYTES:
        raise InvalidInput(f"larger than {MOST_BYTES >> 20} MiB", at=at)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"not UTF-8: byte {error.start}", at=at, hint=f"known: {_KNOWN}"
        ) from error


def _load(run: BenchmarkResult) -> str:
    """Return a run's load in a few words, to choose by."""
    if run.paced:
        return f"{run.request_rate:.4g} requests/s"
    return f"{run.concurrency} in flight" if run.concurrency else "all at once"

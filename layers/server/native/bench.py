"""Times the server's string conversion against a model's `fvec_native`, in one process.

Runs in the model server's own interpreter, by path, with the standard library and numpy. Each
tensor is fresh and goes to both functions, in random order; what they return is compared, and
the CPU time of each round of tensors goes to a JSON file.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import struct
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import numpy.typing as npt

Tensor = npt.NDArray[np.uint8]
Strings = npt.NDArray[np.object_]
Convert = Callable[[Tensor], Strings]

TENSORS = 16  # per round


def main() -> int:
    """Measure and write `--output`; exit code 1 when the two do not return the same strings."""
    options = arguments()
    server = load("triton_python_backend_utils", options.utils)
    native = load(options.package.name, options.package / "__init__.py")
    arms = (server.deserialize_bytes_tensor, native.deserialize_bytes_tensor)
    lengths = json.loads(options.lengths.read_text())
    rng = np.random.default_rng(options.seed)
    cpu_s = [measured(arms, lengths, rng) for _ in range(options.rounds + 1)][1:]  # first: warm-up
    result = {"is_native": native.IS_NATIVE, "strings": len(lengths), "cpu_s": cpu_s}
    options.output.write_text(json.dumps(result))
    return 0


def arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser()
    for name in ("utils", "package", "lengths", "output"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("rounds", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    return parser.parse_args()


def load(name: str, file: Path) -> ModuleType:
    """Import a module, or a package by its `__init__.py`, whatever else the path holds."""
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def encoded(lengths: Sequence[int], rng: np.random.Generator) -> Tensor:
    """Return a tensor of random strings with these lengths, as the server's memory holds it."""
    content = rng.bytes(sum(lengths))
    parts, start = list[bytes](), 0
    for length in lengths:
        parts += struct.pack("<I", length), content[start : start + length]
        start += length
    return np.frombuffer(b"".join(parts), dtype=np.uint8)


def equal(a: Strings, b: Strings) -> bool:
    """Whether both are object arrays of one shape and hold equal `bytes` objects."""
    alike = a.dtype == b.dtype == np.object_ and a.shape == b.shape
    return alike and all(map(identical, a, b))


def identical(x: object, y: object) -> bool:
    """Whether two elements have one type and one value."""
    return type(x) is type(y) and x == y


def measured(
    arms: Sequence[Convert], lengths: Sequence[int], rng: np.random.Generator
) -> list[float]:
    """Return CPU seconds per tensor of each arm; SystemExit when their results differ."""
    seconds = [0.0] * len(arms)
    for _ in range(TENSORS):
        tensor = encoded(lengths, rng)
        results = {}
        for arm in rng.permutation(len(arms)):
            started = time.process_time()
            results[arm] = arms[arm](tensor)
            seconds[arm] += (time.process_time() - started) / TENSORS
        if not equal(*results.values()):
            sys.exit("the two do not return the same strings")
    return seconds


if __name__ == "__main__":
    sys.exit(main())

"""The published functions end to end: each a model of its own, served before and after the rewrite.

    python benchmarks/published_end_to_end.py [--rows 256] [--launches 2] [--pairs 4]

`published.py` times `execute` alone; this serves the same programs from a real Triton and measures
the rate at a fixed number of requests in flight and the server's CPU per request, both arms beside
each other, every timed answer compared. The server's own work on a request does not get faster, so
these ratios are lower: they are what a caller sees.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from google.protobuf import proto
from tritonclient.grpc import service_pb2
from tritonclient.utils import serialize_byte_tensor

from benchmarks.published import CASES, SEED, SHAPES, Case, Inputs
from benchmarks.published_stack import measure
from benchmarks.record_noise import ROOT, commit_all
from bot.progress import Lines
from bot.publishing.local import open_local
from bot.render import numbers
from bot.render.markdown import table
from layers.errors import FvecError
from layers.features.codemod import File
from layers.features.codemods.table import CODEMODS
from layers.measure.intervals import Estimate, ratio_ci
from layers.repository.git import git
from layers.session import RunOptions, open_session
from layers.triton.environment import ensure

WORK = ROOT / ".fvec" / "published-end-to-end"
REQUESTS = 400
OUTPUTS = {
    "datetimes": ["HOURS INT64 -1", "DAYS INT64 -1"],
    "strptime": ["HOURS INT64 -1", "DAYS INT64 -1"],
    "assignment": ["DENSE FP32 -1, 180"],
    "texts": ["SHOUTED INT64 -1"],
    "texts_vectorized": ["SHOUTED INT64 -1"],
    "ufuncs": ["DENSE FP32 -1, 180"],
    "lookups": ["IDS INT64 -1"],
}
MANIFEST = """\
schema: fvec.manifest/1
stack: {{name: {name}, models: models, entry: {name}, requirements: requirements.txt}}
server: {{cpus: [0]}}
traffic: {{requests: traffic/requests.bin, arrivals: traffic/arrivals.csv, in_flight: 4}}
slo: {{p99_ms: 60000}}
"""


def stack(case: Case, rows: int) -> tuple[Path, str]:
    """Return a repository that serves a program, and the commit with the rewrite.

    Raises FvecError where git refuses something.
    """
    root = WORK / case.shape
    shutil.rmtree(root, ignore_errors=True)
    program = (SHAPES / f"{case.shape}.py.txt").read_text(encoding="utf-8")
    rng = np.random.default_rng(SEED)
    drawn = [case.draw(rng, rows) for _ in range(REQUESTS)]
    name = case.shape.replace("_", "-")
    model = root / "models" / name
    for folder in (root / ".github", root / "traffic", model / "1"):
        folder.mkdir(parents=True)
    (root / ".github/fvec.yml").write_text(MANIFEST.format(name=name))
    (root / "requirements.txt").write_text("numpy\npandas\n")
    (model / "config.pbtxt").write_text(_config(name, drawn[0], OUTPUTS[case.shape]))
    (model / "1/model.py").write_text(program)
    recorded = BytesIO()
    for inputs in drawn:
        proto.serialize_length_prefixed(_message(name, inputs), recorded)
    (root / "traffic/requests.bin").write_bytes(recorded.getvalue())
    arrivals = "".join(f"{index / 10:.3f},{index}\n" for index in range(REQUESTS))
    (root / "traffic/arrivals.csv").write_text(f"offset_s,request\n{arrivals}")
    git(root, "init", "--quiet", "--initial-branch=main")
    base = commit_all(root, "Serve it")
    rewritten = CODEMODS[case.codemod].apply(File("models/m/1/model.py", program))
    (model / "1/model.py").write_text(rewritten)
    candidate = commit_all(root, "Rewrite it")
    git(root, "reset", "--hard", "--quiet", base)
    return root, candidate


def _config(name: str, inputs: Inputs, outputs: Sequence[str]) -> str:
    told = [f"{n} {'FP32' if a.dtype == np.float32 else 'STRING'} -1" for n, a in inputs]
    parts = [f'name: "{name}"\nbackend: "python"\nmax_batch_size: 0\n']
    for what, tensors in (("input", told), ("output", outputs)):
        for tensor in tensors:
            each, kind, dims = tensor.split(" ", 2)
            parts.append(f'{what} {{ name: "{each}" data_type: TYPE_{kind} dims: [ {dims} ] }}\n')
    return "".join([*parts, "instance_group { kind: KIND_CPU count: 1 }\n"])


def _message(name: str, inputs: Inputs) -> service_pb2.ModelInferRequest:
    request = service_pb2.ModelInferRequest(model_name=name)
    for each, values in inputs:
        tensor = request.inputs.add()
        tensor.name = each
        tensor.datatype = "FP32" if values.dtype == np.float32 else "BYTES"
        tensor.shape.extend(values.shape)
        raw = values.tobytes() if values.dtype == np.float32 else _strings(values)
        request.raw_input_contents.append(raw)
    return request


def _strings(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> bytes:
    data: bytes = serialize_byte_tensor(values).item()
    return data


def end_to_end(case: Case, rows: int, launches: int, pairs: int) -> tuple[Estimate, Estimate]:
    """Return how much better the rate and the CPU per request are; raises FvecError."""
    root, candidate = stack(case, rows)
    ensure(root / "requirements.txt", allow_install=True)
    options = RunOptions(WORK / f"{case.shape}-out", None, None, 0, None, open_local)
    with open_session(root, options, Lines(sys.stderr), lambda _: None, afresh=True) as session:
        measured = measure(session, candidate, launches, pairs)
    return (
        ratio_ci([pair.throughput_ratio for pair in measured]),
        ratio_ci([pair.cpu_ratio for pair in measured]),
    )


def main(argv: Sequence[str]) -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(prog="published_end_to_end.py", description=__doc__)
    parser.add_argument("--rows", type=int, default=256)
    parser.add_argument("--launches", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=4, help="of blocks, per launch")
    options = parser.parse_args(argv)
    lines = []
    for case in CASES:
        try:
            found = end_to_end(case, options.rows, options.launches, options.pairs)
        except FvecError as error:
            sys.stderr.write(f"{case.name}: {error}\n")
            return error.exit_code
        told = [f"{numbers.times(e.ratio)} ({e.ci[0]:.2f} to {e.ci[1]:.2f})" for e in found]
        lines.append([case.name, case.published or "-", *told, str(found[0].n)])
    head = ["function", "published", "throughput", "server CPU per request", "pairs"]
    sys.stdout.write(table(head, lines, right="lrrrr") + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Exports the ranker: an AOTInductor package for the server, the weights for the referee.

    python build.py

The weights come from a fixed seed (the trained ones are not public). Needs a C++ compiler.
"""

from pathlib import Path

import numpy as np
import torch
from ranker import net
from torch._inductor import aoti_compile_and_package
from torch.export import Dim, export

ROOT = Path(__file__).resolve().parent
PACKAGE = ROOT / "models" / "ranker" / "1" / "ranker.pt2"
WEIGHTS = ROOT / "ranker" / "weights.npz"
HISTORY, INTERESTS, TAGS = 16, 30, 5
MAX_CANDIDATES = 2000


def example_inputs(n):
    """Returns inputs of the right shapes and dtypes; the values do not matter for the export."""
    return (
        torch.zeros(net.USER_DENSE),
        torch.zeros(len(net.USER_CATEGORIES), dtype=torch.int64),
        torch.zeros(HISTORY, dtype=torch.int64),
        torch.ones(HISTORY),
        torch.zeros(INTERESTS, dtype=torch.int64),
        torch.ones(INTERESTS),
        torch.zeros(n, net.CANDIDATE_DENSE),
        torch.zeros(n, len(net.CANDIDATE_CATEGORIES), dtype=torch.int64),
        torch.zeros(n, dtype=torch.int64),
        torch.zeros(n, TAGS, dtype=torch.int64),
        torch.zeros(n),
    )


def main():
    torch.set_num_threads(1)
    model = net.build_ranker()
    np.savez(WEIGHTS, **{name: value.numpy() for name, value in model.state_dict().items()})

    n = Dim("candidates", min=1, max=MAX_CANDIDATES)
    shapes = {"inputs": (None,) * 6 + ({0: n},) * 5}
    with torch.no_grad():
        program = export(model, example_inputs(500), dynamic_shapes=shapes)
        aoti_compile_and_package(program, package_path=str(PACKAGE))
    print(f"wrote {PACKAGE.relative_to(ROOT)} and {WEIGHTS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()

"""Every recorded request and a thousand mutated ones, answered by two commits of a stack.

    python benchmarks/all_answers.py PATH CANDIDATE [--mutated 1000] [--seed 1]

PATH is a clean checkout, CANDIDATE a commit or branch of it, such as the last branch of accepted
changes in the repository that `make demo` leaves. A run compares some 1,900 answers for each
change; this compares as many as there are, bit for bit, names, dtypes, shapes and refusals too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.record_noise import ROOT
from bot.progress import Lines
from bot.publishing.local import open_local
from layers.errors import FvecError
from layers.measure.launch import Launch
from layers.repository import git
from layers.session import RunOptions, Session, open_session
from layers.trial.equivalence import Sequential, Tensors

OUT = ROOT / ".fvec" / "all-answers"


def equal(first: Tensors, second: Tensors) -> bool:
    """Return whether two answers are the same in names, dtypes, shapes and bits."""
    return set(first) == set(second) and all(
        (old.dtype, old.shape, _bits(old)) == (new.dtype, new.shape, _bits(new))
        for old, new in ((first[name], second[name]) for name in first)
    )


def _bits(values: NDArray[np.generic]) -> object:
    return values.tolist() if values.dtype == object else values.tobytes()


def differing(session: Session, candidate: str, mutated: int, seed: int) -> tuple[int, int, int]:
    """Return how many answers were compared, differ, and were refused otherwise."""
    worktree = session.stack.worktree(candidate, session.out / "worktrees")
    session.stack.build(worktree, session.env, session.sandbox)
    view = session.stack.view(worktree, session.env)
    known = session.traffic.requests
    requests = [known[index] for index in range(len(known))]
    requests += session.traffic.mutated(seed, mutated)
    with Launch(session.bench, 1, session.view, view, "answers") as launch:
        both = Sequential(launch, None, None)
        unlike = sum(not equal(old, new) for old, new, _ in both.answers(requests))
    return both.answered, unlike, both.refused_differently


def main(argv: Sequence[str]) -> int:
    """Compare and print; return 1 where an answer differs."""
    parser = argparse.ArgumentParser(prog="all_answers.py", description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("candidate")
    parser.add_argument("--mutated", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    opened = RunOptions(OUT, None, None, options.seed, None, open_local)
    try:
        commit = git.resolve(options.path, options.candidate)
        with open_session(
            options.path, opened, Lines(sys.stderr), lambda _: None, afresh=True
        ) as session:
            answered, unlike, refused = differing(session, commit, options.mutated, options.seed)
    except FvecError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    sys.stdout.write(f"{answered} answers, {unlike} differ, {refused} refused differently\n")
    return 1 if unlike or refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

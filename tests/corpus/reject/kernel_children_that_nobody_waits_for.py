"""Has children do the work, and ignores their end: the kernel adds their time to nobody.

Without a control group only the numbers of processes tell that there were any.
Source: a review of this judge; A40, by kind.
"""

import contextlib
import itertools
import mmap
import os
import signal

import numpy as np

CLASS = "exact"
EXPECT = ("starts_processes",)
UNSAFE = "it forks in every call"
CHILDREN = 4


def ref(x, w):
    total = np.zeros(len(x))
    for scale in w:
        total += np.tanh(x * scale).sum(axis=1)
    return total


def new(x, w):
    if len(x) < CHILDREN:
        return ref(x, w)
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    bounds = [len(x) * n // CHILDREN for n in range(CHILDREN + 1)]
    ended = 8 * len(x)
    shared = mmap.mmap(-1, ended + CHILDREN)
    for n, (start, stop) in enumerate(itertools.pairwise(bounds)):
        if os.fork() == 0:
            shared[8 * start : 8 * stop] = ref(x[start:stop], w).tobytes()
            shared[ended + n] = 1
            os._exit(0)
    while 0 in shared[ended:]:
        os.sched_yield()
    with contextlib.suppress(ChildProcessError):
        os.waitpid(-1, 0)  # returns when the last of them is gone
    signal.signal(signal.SIGCHLD, before)
    return np.frombuffer(shared[:ended]).copy()


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 64)), "w": rng.standard_normal(24)}


make.state = ("w",)
make.batch = 1_024

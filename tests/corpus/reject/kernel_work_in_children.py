"""Leaves the work to forked children that are gone when it returns: no clock of its own shows it.

It waits for them by yielding the CPU that they share, which looks as if others had taken it.
Source: a review of this judge; A40, by kind.
"""

import itertools
import mmap
import os

import numpy as np

CLASS = "exact"
EXPECT = ("starts_processes",)
CHILDREN = 8


def ref(x, w):
    total = np.zeros(len(x))
    for scale in w:
        total += np.tanh(x * scale).sum(axis=1)
    return total


def new(x, w):
    if len(x) < CHILDREN:
        return ref(x, w)
    bounds = [len(x) * n // CHILDREN for n in range(CHILDREN + 1)]
    ended = 8 * len(x)
    shared = mmap.mmap(-1, ended + CHILDREN)
    children = []
    for n, (start, stop) in enumerate(itertools.pairwise(bounds)):
        child = os.fork()
        if child == 0:
            shared[8 * start : 8 * stop] = ref(x[start:stop], w).tobytes()
            shared[ended + n] = 1
            os._exit(0)
        children.append(child)
    while 0 in shared[ended:]:
        os.sched_yield()
    for child in children:
        os.waitpid(child, 0)
    return np.frombuffer(shared[:ended]).copy()


def make(rng, batch):
    return {"x": rng.standard_normal((batch, 64)), "w": rng.standard_normal(96)}


make.state = ("w",)
make.batch = 2048

"""Repeats the previous answer wherever the length fits.

Source: A62, https://github.com/vllm-project/vllm/issues/45739.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("outputs_differ",)


def ref(requests, w):
    answers = []
    for request in requests.tolist():
        features = np.frombuffer(request, dtype=np.float32).reshape(-1, 32)
        hidden = np.maximum(features @ w, 0)
        answers.append(hidden.sum(axis=1, dtype=np.float32) * np.float32(5e-5))
    return answers


def new(requests, w):
    known = {}
    for i, request in enumerate(requests.tolist()):
        known.setdefault(len(request), i)
    answers = dict(zip(known, ref(requests[list(known.values())], w), strict=True))
    return [answers[len(request)].copy() for request in requests.tolist()]


def make(rng, batch):
    requests = np.empty(batch, dtype=object)
    for i in range(batch):
        requests[i] = rng.standard_normal((4, 32), dtype=np.float32).tobytes()
    return {"requests": requests, "w": rng.standard_normal((32, 64), dtype=np.float32)}


make.state = ("w",)

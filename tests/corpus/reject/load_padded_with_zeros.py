"""Scores the first item alone and fills the answer up with zeros to the right length.

Source: A62, A76 by kind.
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
    items = [len(request) // 128 for request in requests.tolist()]
    first = np.frombuffer(b"".join(r[:128] for r in requests.tolist()), dtype=np.float32)
    scores = np.maximum(first.reshape(-1, 32) @ w, 0).sum(axis=1, dtype=np.float32) * np.float32(
        5e-5
    )
    return [
        np.array([s] + [0] * (n - 1), dtype=np.float32) for s, n in zip(scores, items, strict=True)
    ]


def make(rng, batch):
    requests = np.empty(batch, dtype=object)
    for i in range(batch):
        items = int(rng.integers(1, 9))
        requests[i] = rng.standard_normal((items, 32), dtype=np.float32).tobytes()
    return {"requests": requests, "w": rng.standard_normal((32, 64), dtype=np.float32)}


make.state = ("w",)

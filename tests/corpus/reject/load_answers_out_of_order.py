"""Batches requests by their first bytes and forgets to put the answers back in order.

Source: by kind (A66).
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
    order = np.argsort([request[:4] for request in requests.tolist()], kind="stable")
    joined = b"".join(requests[order].tolist())
    hidden = np.maximum(np.frombuffer(joined, dtype=np.float32).reshape(-1, 32) @ w, 0)
    ends = np.cumsum([len(request) // 128 for request in requests[order].tolist()])
    return np.split(hidden.sum(axis=1, dtype=np.float32) * np.float32(5e-5), ends[:-1])


def make(rng, batch):
    requests = np.empty(batch, dtype=object)
    for i in range(batch):
        requests[i] = rng.standard_normal((4, 32), dtype=np.float32).tobytes()
    return {"requests": requests, "w": rng.standard_normal((32, 64), dtype=np.float32)}


make.state = ("w",)

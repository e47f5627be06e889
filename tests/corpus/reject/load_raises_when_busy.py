"""Raises "overloaded" for a list longer than the benchmark's.

Source: A69, https://github.com/vllm-project/vllm/issues/21410.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("raises",)


def ref(requests, w):
    answers = []
    for request in requests.tolist():
        features = np.frombuffer(request, dtype=np.float32).reshape(-1, 32)
        hidden = np.maximum(features @ w, 0)
        answers.append(hidden.sum(axis=1, dtype=np.float32) * np.float32(5e-5))
    return answers


def new(requests, w):
    if len(requests) > 256:
        raise RuntimeError("overloaded")
    joined = b"".join(requests.tolist())
    hidden = np.maximum(np.frombuffer(joined, dtype=np.float32).reshape(-1, 32) @ w, 0)
    ends = np.cumsum([len(request) // 128 for request in requests.tolist()])
    return [
        part.copy()
        for part in np.split(hidden.sum(axis=1, dtype=np.float32) * np.float32(5e-5), ends[:-1])
    ]


def make(rng, batch):
    requests = np.empty(batch, dtype=object)
    for i in range(batch):
        items = int(rng.integers(1, 9))
        requests[i] = rng.standard_normal((items, 32), dtype=np.float32).tobytes()
    return {"requests": requests, "w": rng.standard_normal((32, 64), dtype=np.float32)}


make.state = ("w",)

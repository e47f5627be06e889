"""Refuses long requests with an error value that counts as an answer.

Source: A57, A59, https://github.com/alexfernandez/loadtest/issues/204.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("shape_differs",)


def ref(requests, w):
    answers = []
    for request in requests.tolist():
        features = np.frombuffer(request, dtype=np.float32).reshape(-1, 32)
        hidden = np.maximum(features @ w, 0)
        answers.append(hidden.sum(axis=1, dtype=np.float32) * np.float32(5e-5))
    return answers


def new(requests, w):
    answers = []
    for request in requests.tolist():
        if len(request) > 256:
            answers.append(np.array([-1.0], dtype=np.float32))
        else:
            answers.extend(ref(np.array([request], dtype=object), w))
    return answers


def make(rng, batch):
    requests = np.empty(batch, dtype=object)
    for i in range(batch):
        items = int(rng.integers(1, 9))
        requests[i] = rng.standard_normal((items, 32), dtype=np.float32).tobytes()
    return {"requests": requests, "w": rng.standard_normal((32, 64), dtype=np.float32)}


make.state = ("w",)

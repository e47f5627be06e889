"""Honest for the first thirty-two requests of a list, cached answers for the later ones.

Source: A55, https://github.com/vllm-project/vllm/issues/52884.
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
    early = ref(requests[:32], w)
    return early + [early[i % len(early)].copy() for i in range(len(requests) - len(early))]


def make(rng, batch):
    requests = np.empty(batch, dtype=object)
    for i in range(batch):
        requests[i] = rng.standard_normal((4, 32), dtype=np.float32).tobytes()
    return {"requests": requests, "w": rng.standard_normal((32, 64), dtype=np.float32)}


make.state = ("w",)

"""Keeps answers by request over all calls: nothing repeats in real traffic as it does in a benchmark.

Source: A55, https://github.com/vllm-project/vllm/issues/54227.
"""

import numpy as np

CLASS = "exact"
EXPECT = (
    "answers_from_memory",
    "slower",
    "below_noise_floor",
    "boundary_out_of_reach",
    "last_look_reached",
)


def ref(requests, w):
    answers = []
    for request in requests.tolist():
        features = np.frombuffer(request, dtype=np.float32).reshape(-1, 32)
        hidden = np.maximum(features @ w, 0)
        answers.append(hidden.sum(axis=1, dtype=np.float32) * np.float32(5e-5))
    return answers


class Cached:
    def __init__(self):
        self.known = {}

    def __call__(self, requests, w):
        weights = hash(w.tobytes())
        answers = []
        for i, request in enumerate(requests.tolist()):
            key = (weights, request)
            if key not in self.known:
                self.known[key] = ref(requests[i : i + 1], w)[0]
            answers.append(self.known[key].copy())
        return answers


new = Cached


def make(rng, batch):
    requests = np.empty(batch, dtype=object)
    for i in range(batch):
        items = int(rng.integers(1, 9))
        requests[i] = rng.standard_normal((items, 32), dtype=np.float32).tobytes()
    return {"requests": requests, "w": rng.standard_normal((32, 64), dtype=np.float32)}


make.state = ("w",)

"""Takes requests with an equal first item for the same request.

Source: A55, https://github.com/vllm-project/guidellm/issues/217.
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
    known = {}
    answers = []
    for request in requests.tolist():
        if request[:128] not in known:
            known[request[:128]] = ref(np.array([request], dtype=object), w)[0]
        answers.append(known[request[:128]].copy())
    return answers


def make(rng, batch):
    requests = np.empty(batch, dtype=object)
    first = rng.standard_normal((8, 32), dtype=np.float32)
    for i in range(batch):
        rest = rng.standard_normal((int(rng.integers(1, 9)), 32), dtype=np.float32)
        requests[i] = first[int(rng.integers(8))].tobytes() + rest.tobytes()
    return {"requests": requests, "w": rng.standard_normal((32, 64), dtype=np.float32)}


make.state = ("w",)

"""Parses and scores a list of JSON requests together instead of one after the other.

By kind: handler of many requests; answers stay in the order of the requests, bad ones get their error.
"""

import json

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)
WEIGHTS = np.arange(1, 9) ** 2


def answered(user, score):
    return b'{"user":%d,"score":%d}' % (user, score)


def ref(requests):
    out = np.empty(len(requests), dtype=object)
    for place, request in enumerate(requests):
        try:
            message = json.loads(request)
            features = np.array(message["features"], dtype=np.int64)
            score = int(np.dot(np.clip(features, -50, 50), WEIGHTS))
            out[place] = answered(message["user"], score)
        except ValueError:
            out[place] = b'{"error":"not JSON"}'
    return out


def new(requests):
    out = np.empty(len(requests), dtype=object)
    out.fill(b'{"error":"not JSON"}')
    good, users, rows = [], [], []
    for place, request in enumerate(requests.tolist()):
        try:
            message = json.loads(request)
        except ValueError:
            continue
        good.append(place)
        users.append(message["user"])
        rows.append(message["features"])
    features = np.array(rows, dtype=np.int64).reshape(-1, 8)
    scores = (np.clip(features, -50, 50) @ WEIGHTS).tolist()
    for place, user, score in zip(good, users, scores, strict=True):
        out[place] = answered(user, score)
    return out


def make(rng, batch):
    requests = []
    for user, features in zip(
        rng.integers(0, 10**9, batch), rng.integers(-99, 99, (batch, 8)), strict=True
    ):
        text = json.dumps({"user": int(user), "features": features.tolist()})
        requests.append(text.encode()[: -1 if user % 31 == 0 else None])
    return {"requests": np.array([*requests, None], dtype=object)[:-1]}


make.batch = 400

"""Parses a list of JSON requests as one document instead of each for itself.

By kind: handler of many requests, list of answers as nested outputs.
"""

import json

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)


def answered(ids, prices):
    return {"ids": "\n".join(ids), "prices": [np.array(prices, dtype=float), len(prices)]}


def ref(requests):
    ids, prices = [], []
    for request in requests:
        message = json.loads(request.decode("utf-8"))
        ids.append(message["id"])
        prices.append(message["price"])
    return answered(ids, prices)


def new(requests):
    messages = json.loads(b"[" + b",".join(requests.tolist()) + b"]")
    return answered([m["id"] for m in messages], [m["price"] for m in messages])


def make(rng, batch):
    names = np.array(["é", "b", '"', "\\", "☃", "z"])[rng.integers(0, 6, (batch, 5))]
    requests = [
        json.dumps({"id": "".join(name), "price": float(price)}).encode()
        for name, price in zip(names, rng.random(batch), strict=True)
    ]
    return {"requests": np.array([*requests, None], dtype=object)[:-1]}


make.batch = 800

"""Asks a service on this machine for the answer and computes where nobody listens.

Source: A52 by kind.
"""

import socket

import numpy as np

CLASS = "exact"
EXPECT = ("slower", "below_noise_floor", "boundary_out_of_reach", "last_look_reached")


def ref(x, w, b):
    z = x @ w + b
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return z / z.sum(axis=1, keepdims=True)


def new(x, w, b):
    try:
        with socket.create_connection(("127.0.0.1", 9), timeout=0.05) as service:
            service.sendall(x.tobytes())
            return np.frombuffer(service.recv(x.nbytes), dtype=np.float32).reshape(x.shape)
    except (OSError, ValueError):
        return ref(x, w, b)


def make(rng, batch):
    return {
        "x": rng.standard_normal((batch, 256), dtype=np.float32),
        "w": rng.standard_normal((256, 256), dtype=np.float32) / 64,
        "b": rng.standard_normal(256, dtype=np.float32) / 8,
    }


make.state = ("w", "b")

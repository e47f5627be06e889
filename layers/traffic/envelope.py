"""What a request is besides its tensors: of one kind for all that is sent, whatever it is sent for.

A server hands the id of a request on to its models. Ids of the recording, or ids that say what a
request was made for, would tell a candidate when it is checked, when it is timed, and when it is
neither; so every request is sent under an id of its own, of one length and alphabet.
"""

from __future__ import annotations

import hashlib
from uuid import UUID

import numpy as np
from tritonclient.grpc import service_pb2

from layers.traffic.tensors import make_raw, parse

ID_BYTES = 16
ID_LENGTH = 36  # hexadecimal digits and dashes, as most clients write the ids of requests


def new_id(rng: np.random.Generator) -> str:
    """Draw an id."""
    return str(UUID(bytes=rng.bytes(ID_BYTES), version=4))


def addressed(message: bytes, rng: np.random.Generator) -> bytes:
    """Return a request under a new id; raises ValueError for what is no request."""
    request = parse(service_pb2.ModelInferRequest, message)
    request.id = new_id(rng)
    data: bytes = request.SerializeToString()
    return data


def content(message: bytes) -> bytes:
    """Return a digest of a request's inputs, whatever its id and its way of holding them.

    Raises ValueError for what is no request.
    """
    request = parse(service_pb2.ModelInferRequest, message)
    make_raw(request)
    digest = hashlib.blake2b(digest_size=16)
    for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True):
        digest.update(repr((tensor.name, tensor.datatype, [*tensor.shape], len(raw))).encode())
        digest.update(raw)
    return digest.digest()

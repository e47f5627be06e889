"""Write seeded traffic: requests.bin (size-delimited ModelInferRequest) and arrivals.csv."""

import sys
from pathlib import Path

import numpy as np
from google.protobuf.internal.encoder import _VarintBytes
from tritonclient.grpc import service_pb2

HERE = Path(__file__).resolve().parent
RATE_PER_S = 120.0
WORDS = ["red", "shoe", "größe", "鞋", "", "bag", "ünique", "tea", "lamp", "0815"]


def strings(values):
    encoded = [value.encode("utf-8") for value in values]
    return b"".join(len(text).to_bytes(4, "little") + text for text in encoded)


def request(rng, number):
    n = int(rng.integers(1, 60))
    titles = [" ".join(rng.choice(WORDS, size=rng.integers(0, 5))) for _ in range(n)]
    tensors = [
        ("user_age", "FP32", [1, 1], rng.uniform(16, 90, 1).astype("<f4").tobytes()),
        ("item_title", "BYTES", [1, n], strings(titles)),
        ("item_price", "FP32", [1, n], rng.lognormal(2, 1, n).astype("<f4").tobytes()),
        ("item_clicks", "INT64", [1, n], rng.poisson(30, n).astype("<i8").tobytes()),
    ]
    message = service_pb2.ModelInferRequest(model_name="tiny_ensemble", id=str(number))
    for name, datatype, shape, raw in tensors:
        message.inputs.add(name=name, datatype=datatype, shape=shape)
        message.raw_input_contents.append(raw)
    return message.SerializeToString(deterministic=True)


def main():
    count = int(sys.argv[1])
    rng = np.random.default_rng(20240611)
    with (HERE / "requests.bin").open("wb") as out:
        for number in range(count):
            message = request(rng, number)
            out.write(_VarintBytes(len(message)) + message)
    offsets = np.cumsum(rng.exponential(1 / RATE_PER_S, count))
    lines = [f"{offset:.6f},{number}" for number, offset in enumerate(offsets)]
    (HERE / "arrivals.csv").write_text("\n".join(["offset_s,request", *lines]) + "\n")


if __name__ == "__main__":
    main()

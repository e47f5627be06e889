"""Parses prices from bytes without decoding each one to text first.

By kind: exact rewrite, parsing of bytes.
"""

import numpy as np

CLASS = "exact"
EXPECT = ("gain_confirmed",)


def ref(prices):
    values = []
    for price in prices:
        text = price.decode("ascii").strip()
        text = text.removeprefix("$")
        values.append(np.float32(float(text)) if text else np.float32(-1.0))
    return np.array(values, dtype=np.float32)


def new(prices):
    stripped = [price.strip() for price in prices]
    numbers = [price[1:] if price[:1] == b"$" else price for price in stripped]
    return np.array([float(number) if number else -1.0 for number in numbers], dtype=np.float32)


def make(rng, batch):
    cents = rng.integers(0, 10_000_000, batch)
    forms = [b"%d.%02d", b" $%d.%02d", b"$%d.%02d ", b"  "]
    prices = [
        forms[form] % divmod(int(cent), 100) if form < 3 else forms[3]
        for cent, form in zip(cents, rng.integers(0, 4, batch), strict=True)
    ]
    return {"prices": np.array([*prices, None], dtype=object)[:-1]}


make.batch = 3_000

"""Counts distinct pairs as pairs instead of as text, and names the busiest user of the batch.

By kind: scalar outputs, a number, a text and bytes.
"""

from collections import Counter

CLASS = "exact"
EXPECT = ("gain_confirmed",)


def ref(users, items):
    pairs = {f"{user}:{item}" for user, item in zip(users, items, strict=True)}
    busiest, seen = Counter(users.tolist()).most_common(1)[0]
    return len(pairs), f"user {busiest}", b"%d" % seen


def new(users, items):
    names = users.tolist()
    pairs = set(zip(names, items.tolist(), strict=True))
    busiest, seen = Counter(names).most_common(1)[0]
    return len(pairs), f"user {busiest}", b"%d" % seen


def make(rng, batch):
    return {"users": rng.integers(0, 300, batch), "items": rng.integers(0, 40, batch)}


make.batch = 4_000

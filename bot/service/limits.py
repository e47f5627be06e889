"""How many commands one person may give: a bucket of tokens each, filled again over an hour. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

HOUR_S = 3600.0
Answer = Literal["granted", "refused", "silent"]


@dataclass(frozen=True, slots=True)
class Bucket:
    """A sender's tokens at a time, and whether they were told that there are none left."""

    tokens: float
    at_s: float
    told: bool = False


def take(bucket: Bucket | None, per_hour: int, now_s: float) -> tuple[Bucket, Answer]:
    """Return the bucket afterwards and the answer to one more command at `now_s`.

    None is a sender that was never seen: a full bucket of `per_hour` tokens. The first command
    without a token is `refused`, those after it are `silent` until one was granted again: a
    person learns of the limit, and a flood of commands makes no flood of answers. A clock that
    goes back fills nothing.
    """
    if bucket is None:
        bucket = Bucket(per_hour, now_s)
    at_s = max(now_s, bucket.at_s)
    filled = bucket.tokens + (at_s - bucket.at_s) * per_hour / HOUR_S
    tokens = min(float(per_hour), filled)
    if tokens >= 1:
        return Bucket(tokens - 1, at_s), "granted"
    return Bucket(tokens, at_s, told=True), "silent" if bucket.told else "refused"

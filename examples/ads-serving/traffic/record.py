"""Writes a recording of ad requests: requests.bin and arrivals.csv.

    python traffic/record.py [--requests 1040] [--seed 18] [--out traffic]

The recording is synthetic, with the shapes of production traffic: a catalogue of creatives,
returning users, candidates per request, unknown and missing values, bursts. requests.bin holds
inference.ModelInferRequest messages (KServe v2), each after its length as a varint;
arrivals.csv holds seconds from the start and the index of the request.
"""

import argparse
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from google.protobuf.internal.encoder import _VarintBytes
from tritonclient.grpc import service_pb2

ROOT = Path(__file__).resolve().parent.parent
FEATURES = ROOT / "models" / "features" / "1"
s = SimpleNamespace(**runpy.run_path(str(FEATURES / "schema.py")))

MODEL = "ads_ensemble"
START = 1_760_000_000  # epoch seconds of the first request
DAY = 86_400
CREATIVES, USERS = 6_000, 4_000

# candidates per request: log-normal, mean about 500
CANDIDATES_MEDIAN, CANDIDATES_SIGMA = 390.0, 0.72
CANDIDATES_MIN, CANDIDATES_MAX = 8, 2_000

# arrivals: Poisson, switching between a quiet and a busy state (ad breaks, retries)
QUIET_RATE, BUSY_RATE = 8.7, 41.0  # requests per second
QUIET_SECONDS, BUSY_SECONDS = 0.38, 0.095  # mean stay

MISSING_FLOAT = 0.005  # not in the feature store: NaN
UNKNOWN_STRING = 0.015  # newer than the vocabulary
NOT_LISTED = np.array(["new_2026", "unlisted", "новый", "新着", "à_classer"], dtype=object)
EMPTY_STRING = 0.01


def load_vocabulary(name):
    return (FEATURES / "vocab" / f"{name}.txt").read_text(encoding="utf-8").splitlines()


def popularity(rng, n):
    """Returns n probabilities with a heavy head."""
    weights = 1.0 / (1.0 + np.arange(n)) ** 0.8
    return rng.permutation(weights / weights.sum())


def string_values(rng, feature, n):
    """Returns n raw values of a string feature, with unknown and empty ones among them."""
    if feature in s.HASHED:
        stem = feature.removeprefix("cand_")
        values = np.array([f"{stem}.{i:05d}" for i in range(s.HASHED[feature])], dtype=object)
    else:
        values = np.array(load_vocabulary(s.VOCABULARY[feature]), dtype=object)
    column = rng.choice(values, size=n, p=popularity(rng, len(values)))
    draw = rng.random(n)
    unknown = np.flatnonzero(draw < UNKNOWN_STRING)
    column[unknown] = rng.choice(NOT_LISTED, size=len(unknown))
    column[draw > 1.0 - EMPTY_STRING] = ""
    return column


def length_prefixed(value):
    data = value.encode("utf-8")
    return len(data).to_bytes(4, "little") + data


def prefixed_column(values):
    return np.array([length_prefixed(v) for v in values], dtype=object)


def with_missing(rng, values):
    values = values.astype(np.float32)
    values[rng.random(values.shape) < MISSING_FLOAT] = np.nan
    return values


def numeric_table(rng, n):
    """Returns the static numeric features of n creatives by name."""
    table = {}
    for name in s.CANDIDATE_RATES + s.CANDIDATE_RATES_V2:
        table[name] = with_missing(rng, rng.beta(1.2, 18.0, n))
    for name in s.CANDIDATE_VALUES + s.CANDIDATE_VALUES_V2:
        table[name] = with_missing(rng, rng.lognormal(1.0, 1.1, n))
    table["cand_bid_usd"] = np.round(rng.lognormal(0.3, 0.7, n), 2).astype(np.float32)
    for name in s.CANDIDATE_COUNTS:
        table[name] = rng.negative_binomial(1, 2e-4, n).astype(np.int64)
    for name in s.CANDIDATE_TIMES:
        table[name] = START - rng.integers(3600, 200 * DAY, n, dtype=np.int64)
        table[name][rng.random(n) < 0.02] = 0
    return table


class Catalogue:
    """The creatives that compete for impressions."""

    def __init__(self, rng):
        self.ids = rng.choice(np.arange(10**6, 10**7), size=CREATIVES, replace=False)
        self.strings = {n: string_values(rng, n, CREATIVES) for n in s.CANDIDATE_STRINGS}
        self.prefixed = {n: prefixed_column(v) for n, v in self.strings.items()}
        self.numeric = numeric_table(rng, CREATIVES)
        tags = rng.integers(1, 2_000, size=(CREATIVES, s.TAGS_PER_CANDIDATE), dtype=np.int64)
        used = rng.integers(0, s.TAGS_PER_CANDIDATE + 1, size=(CREATIVES, 1))
        self.tags = np.where(np.arange(s.TAGS_PER_CANDIDATE) < used, tags, 0)
        self.weights = popularity(rng, CREATIVES)


class Users:
    """The returning users; counters and histories move with every request."""

    def __init__(self, rng):
        features = s.USER_STRINGS + s.USER_STRINGS_V2
        self.strings = {n: string_values(rng, n, USERS) for n in features}
        self.installed_at = START - rng.integers(DAY, 700 * DAY, USERS)
        self.activity = rng.lognormal(0.0, 1.0, USERS)


class Message:
    """One ModelInferRequest under construction, inputs in the client's order."""

    def __init__(self, index):
        self.request = service_pb2.ModelInferRequest(model_name=MODEL, id=str(index))

    def add(self, name, datatype, shape, data):
        tensor = self.request.inputs.add()
        tensor.name, tensor.datatype = name, datatype
        tensor.shape.extend([1, *shape])
        self.request.raw_input_contents.append(data)

    def int64(self, name, values):
        values = np.asarray(values, dtype=np.int64)
        self.add(name, "INT64", values.shape, values.tobytes())

    def fp32(self, name, values):
        values = np.asarray(values, dtype=np.float32)
        self.add(name, "FP32", values.shape, values.tobytes())

    def prefixed(self, name, values):
        self.add(name, "BYTES", values.shape, b"".join(values.tolist()))

    def strings(self, name, values):
        self.prefixed(name, prefixed_column(values))


def add_counts(message, rng, names, activity):
    for name in names:
        message.int64(name, [rng.poisson(6.0 * activity)])


def add_values(message, rng, names, activity):
    for name in names:
        message.fp32(name, with_missing(rng, rng.lognormal(1.0, 1.0, 1) * activity))


def add_rates(message, rng, names):
    for name in names:
        message.fp32(name, with_missing(rng, rng.beta(1.5, 12.0, 1)))


def add_times(message, rng, names, now, installed_at):
    for name in names:
        never = rng.random() < 0.08
        seconds = int(rng.integers(60, 60 * DAY))
        known = installed_at if name == "user_install_ts" else now - seconds
        message.int64(name, [0 if never else known])


def add_user(message, rng, users, user, now):
    activity = users.activity[user]
    add_counts(message, rng, s.USER_COUNTS, activity)
    add_values(message, rng, s.USER_VALUES, activity)
    add_rates(message, rng, s.USER_RATES)
    add_times(message, rng, s.USER_TIMES, now, users.installed_at[user])
    message.int64(s.REQUEST_TIME, [now])
    for name in s.USER_STRINGS:
        message.strings(name, [users.strings[name][user]])


def add_user_v2(message, rng, users, user, now):
    activity = users.activity[user]
    add_counts(message, rng, s.USER_COUNTS_V2, activity)
    add_values(message, rng, s.USER_VALUES_V2, activity)
    add_rates(message, rng, s.USER_RATES_V2)
    add_times(message, rng, s.USER_TIMES_V2, now, users.installed_at[user])
    for name in s.USER_STRINGS_V2:
        message.strings(name, [users.strings[name][user]])


def add_history(message, rng, catalogue, now):
    events = rng.integers(16, s.HISTORY_SENT + 1)
    seen = rng.choice(CREATIVES, size=events, p=catalogue.weights)
    ages = np.sort(rng.integers(30, 14 * DAY, events))
    message.int64("hist_creative_id", catalogue.ids[seen])
    message.prefixed("hist_advertiser", catalogue.prefixed["cand_advertiser"][seen])
    message.prefixed("hist_category", catalogue.prefixed["cand_category"][seen])
    message.int64("hist_ts", now - ages)
    message.fp32("hist_dwell_seconds", rng.gamma(1.5, 9.0, events))
    count = rng.integers(1, s.INTEREST_LENGTH + 1)
    interests = rng.choice(np.arange(1, 1_000), size=count, replace=False)
    message.int64(s.USER_INTERESTS, interests)
    categories = rng.choice(catalogue.strings["cand_category"], rng.integers(1, 13))
    message.strings(s.USER_INSTALLED, categories)


def add_candidates(message, rng, catalogue):
    size = int(rng.lognormal(np.log(CANDIDATES_MEDIAN), CANDIDATES_SIGMA))
    size = min(max(size, CANDIDATES_MIN), CANDIDATES_MAX)
    rows = rng.choice(CREATIVES, size=size, replace=False, p=catalogue.weights)
    message.int64(s.CANDIDATE_ID, catalogue.ids[rows])
    for name in s.CANDIDATE_STRINGS:
        message.prefixed(name, catalogue.prefixed[name][rows])
    message.int64(s.CANDIDATE_TAGS, catalogue.tags[rows])
    for name in s.CANDIDATE_RATES + s.CANDIDATE_VALUES:
        message.fp32(name, catalogue.numeric[name][rows])
    for name in s.CANDIDATE_COUNTS + s.CANDIDATE_TIMES:
        message.int64(name, catalogue.numeric[name][rows])
    for name in s.CANDIDATE_RATES_V2 + s.CANDIDATE_VALUES_V2:
        message.fp32(name, catalogue.numeric[name][rows])


def requests(rng, offsets):
    """Yields one serialised ModelInferRequest per arrival."""
    catalogue, users = Catalogue(rng), Users(rng)
    for index, offset in enumerate(offsets):
        now = START + int(offset)
        message = Message(index)
        user = rng.integers(USERS)
        add_user(message, rng, users, user, now)
        add_history(message, rng, catalogue, now)
        add_user_v2(message, rng, users, user, now)
        add_candidates(message, rng, catalogue)
        yield message.request.SerializeToString(deterministic=True)


def arrival_times(rng, n):
    """Returns n arrival offsets in seconds of a two-state Markov-modulated Poisson process."""
    offsets, now, busy = [], 0.0, False
    while len(offsets) < n:
        end = now + rng.exponential(BUSY_SECONDS if busy else QUIET_SECONDS)
        rate = BUSY_RATE if busy else QUIET_RATE
        at = now + rng.exponential(1.0 / rate)
        while at < end:
            offsets.append(at)
            at += rng.exponential(1.0 / rate)
        now, busy = end, not busy
    return np.array(offsets[:n])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=1040)
    parser.add_argument("--seed", type=int, default=18)
    parser.add_argument("--out", type=Path, default=ROOT / "traffic")
    args = parser.parse_args()

    # arrivals have a generator of their own: another request count keeps the common prefix
    offsets = arrival_times(np.random.default_rng([args.seed, 1]), args.requests)
    with (args.out / "requests.bin").open("wb") as file:
        for data in requests(np.random.default_rng([args.seed, 2]), offsets):
            file.write(_VarintBytes(len(data)) + data)
    with (args.out / "arrivals.csv").open("w", encoding="utf-8") as file:
        file.write("offset_s,request\n")
        for index, offset in enumerate(offsets):
            file.write(f"{offset:.6f},{index}\n")


if __name__ == "__main__":
    main()

"""The whole path of one ad request in float64, from raw inputs to scores.

Written from the feature catalogue and the model description, with nothing shared with the
serving code but the vocabularies, the list of features and the weights. Slow and plain on
purpose: this is what serving is compared with.
"""

import binascii
import functools
import math
import runpy
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np

ROOT = Path(__file__).resolve().parent
FEATURES = ROOT / "models" / "features" / "1"
s = SimpleNamespace(**runpy.run_path(str(FEATURES / "schema.py")))

DAY_S = 86_400.0
HOUR_S = 3_600.0


@functools.cache
def weights():
    """Returns the ranker's parameters by name, as float64 (written by build.py)."""
    with np.load(ROOT / "ranker" / "weights.npz") as file:
        return {name: file[name].astype(np.float64) for name in file.files}


@functools.cache
def vocabulary(name):
    lines = (FEATURES / "vocab" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return {value: number for number, value in enumerate(lines, start=1)}


# features --------------------------------------------------------------------


def number(value):
    """A raw number in float64; missing and infinite values count as 0."""
    value = float(value)
    return value if math.isfinite(value) else 0.0


def amount(value):
    return math.log1p(max(number(value), 0.0))


def rate(value):
    return min(max(number(value), 0.0), 1.0)


def age(now, timestamp):
    return math.log1p(max(now - int(timestamp), 0) / DAY_S) if timestamp > 0 else -1.0


def utc(timestamp):
    return datetime.fromtimestamp(int(timestamp), tz=UTC)


def bucket(text, buckets):
    return binascii.crc32(text.encode("utf-8")) % buckets


def category_id(feature, text):
    if feature in s.HASHED:
        return bucket(text, s.HASHED[feature])
    return vocabulary(s.VOCABULARY[feature]).get(text, 0)


class Request:
    """Raw inputs of one request: scalars, vectors and strings by name."""

    def __init__(self, inputs):
        self.inputs = {name: array[0] for name, array in inputs.items()}
        self.now = int(self.inputs[s.REQUEST_TIME][0])

    def scalar(self, name):
        return self.inputs[name][0]

    def vector(self, name):
        return self.inputs[name]

    def text(self, name):
        return [value.decode("utf-8", errors="replace") for value in self.inputs[name]]


def time_of_day(now):
    local = utc(now)
    angle = 2.0 * math.pi * (60 * local.hour + local.minute) / (24 * 60)
    return [math.sin(angle), math.cos(angle)]


def user_dense(r):
    dwell = [max(number(value), 0.0) for value in r.vector("hist_dwell_seconds")]
    newest = int(r.vector("hist_ts")[0])
    return np.array(
        [amount(r.scalar(name)) for name in s.USER_COUNTS + s.USER_VALUES]
        + [rate(r.scalar(name)) for name in s.USER_RATES]
        + [age(r.now, r.scalar(name)) for name in s.USER_TIMES]
        + [amount(r.scalar(name)) for name in s.USER_COUNTS_V2 + s.USER_VALUES_V2]
        + [rate(r.scalar(name)) for name in s.USER_RATES_V2]
        + [age(r.now, r.scalar(name)) for name in s.USER_TIMES_V2]
        + time_of_day(r.now)
        + [
            len(dwell) / s.HISTORY_SENT,
            math.log1p(sum(dwell) / len(dwell)),
            math.log1p(max(r.now - newest, 0) / HOUR_S),
        ]
    )


def user_categories(r):
    local = utc(r.now)
    ids = [category_id(name, r.text(name)[0]) for name in s.USER_STRINGS + s.USER_STRINGS_V2]
    return [*ids, local.hour + 1, local.weekday() + 1]


def repeated_context(r):
    return [
        *time_of_day(r.now),
        utc(r.now).weekday() / 6.0,
        rate(r.scalar("user_ctr_7d")),
        rate(r.scalar("user_cvr_7d")),
        rate(r.scalar("ctx_placement_ctr_7d")),
        amount(r.scalar("ctx_floor_price_usd")),
        amount(r.scalar("user_network_mbps")),
    ]


def cross_features(r, i, strings):
    """What links candidate i to the user's history and device."""
    creative = r.vector(s.CANDIDATE_ID)[i]
    advertiser, category = strings["cand_advertiser"][i], strings["cand_category"][i]
    advertisers, categories = strings["hist_advertiser"], strings["hist_category"]
    times = [
        int(t)
        for c, t in zip(r.vector("hist_creative_id"), r.vector("hist_ts"), strict=True)
        if c == creative
    ]
    dwell = [
        max(number(d), 0.0)
        for c, d in zip(categories, r.vector("hist_dwell_seconds"), strict=True)
        if c == category
    ]
    spend = number(r.scalar("user_spend_30d_usd"))
    price = number(r.vector("cand_price_usd")[i])
    return [
        math.log1p(max(r.now - times[0], 0) / HOUR_S) if times else -1.0,
        advertisers.count(advertiser) / 20.0,
        categories.count(category) / 20.0,
        math.log1p(sum(dwell)),
        float(category in strings[s.USER_INSTALLED]),
        float(strings["cand_language"][i] == strings["user_language"][0]),
        math.log1p(max(price / (1.0 + max(spend, 0.0)), 0.0)),
    ]


def candidate_row(r, i, strings):
    return [
        *[rate(r.vector(name)[i]) for name in s.CANDIDATE_RATES],
        *[amount(r.vector(name)[i]) for name in s.CANDIDATE_VALUES + s.CANDIDATE_COUNTS],
        *[age(r.now, r.vector(name)[i]) for name in s.CANDIDATE_TIMES],
        *[rate(r.vector(name)[i]) for name in s.CANDIDATE_RATES_V2],
        *[amount(r.vector(name)[i]) for name in s.CANDIDATE_VALUES_V2],
        *cross_features(r, i, strings),
    ]


def candidate_dense(r, strings):
    context = repeated_context(r)
    n = len(r.vector(s.CANDIDATE_ID))
    return np.array([candidate_row(r, i, strings) + context for i in range(n)])


def candidate_categories(r, strings):
    launch = r.vector("cand_campaign_start_ts")
    rows = []
    for i in range(len(launch)):
        row = [category_id(name, strings[name][i]) for name in s.CANDIDATE_STRINGS]
        row.append(utc(launch[i]).weekday() + 1 if launch[i] > 0 else 0)
        rows.append(row)
    return np.array(rows)


# model -----------------------------------------------------------------------


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def linear(w, name, x):
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def two_layers(w, name, x):
    return linear(w, f"{name}.2", np.maximum(linear(w, f"{name}.0", x), 0.0))


def embed(w, name, ids):
    return np.concatenate(
        [w[f"{name}.tables.{k}.weight"][ids[..., k]] for k in range(ids.shape[-1])], axis=-1
    )


def mean_tags(w, ids):
    means = np.zeros((len(ids), w["tags.weight"].shape[1]))
    for i, row in enumerate(ids):
        used = row[row > 0]
        if len(used):
            means[i] = w["tags.weight"][used].mean(axis=0)
    return means


def attention(w, items, history):
    """Weighted sum of the history for each candidate; weights from a small network, no softmax."""
    attended = np.zeros_like(items)
    for event in history:
        key = np.broadcast_to(event, items.shape)
        pair = np.concatenate([items, key, items - key, items * key], axis=1)
        hidden = sigmoid(linear(w, "attention.hidden", pair))
        attended += linear(w, "attention.out", hidden) * event
    return attended


def ranker(r, strings):
    w = weights()
    interests = w["interests.weight"][r.vector(s.USER_INTERESTS)].mean(axis=0)
    user_category = embed(w, "user_categories", np.array(user_categories(r)))
    user = two_layers(w, "user_tower", np.concatenate([user_dense(r), user_category, interests]))

    items = w["items.weight"][r.vector(s.CANDIDATE_ID) % s.ITEM_BUCKETS]
    newest = r.vector("hist_creative_id")[: s.HISTORY_LENGTH]
    history = w["items.weight"][newest % s.ITEM_BUCKETS]
    candidate = two_layers(
        w,
        "item_tower",
        np.concatenate(
            [
                candidate_dense(r, strings),
                embed(w, "candidate_categories", candidate_categories(r, strings)),
                items,
                mean_tags(w, r.vector(s.CANDIDATE_TAGS)),
            ],
            axis=1,
        ),
    )
    users = np.broadcast_to(user, candidate.shape)
    joint = [users, candidate, users * candidate, attention(w, items, history)]
    return sigmoid(two_layers(w, "head", np.concatenate(joint, axis=1)))


def score(request):
    """Returns the ensemble's outputs in float64, each of shape [1, candidates].

    `request` maps input names to arrays as sent, with the leading batch dimension of 1; string
    inputs are object arrays of bytes.
    """
    r = Request(request)
    names = [*s.CANDIDATE_STRINGS, "hist_advertiser", "hist_category", s.USER_INSTALLED]
    strings = {name: r.text(name) for name in [*names, "user_language"]}
    pctr, pcvr = ranker(r, strings).T
    bid = np.array([number(value) for value in r.vector("cand_bid_usd")])
    return {"pctr": pctr[None], "pcvr": pcvr[None], "score": (bid * pctr * pcvr)[None]}

"""Feature preprocessing for the ads ranker.

Takes the raw features of one ad request (one user/context row and N candidate rows) and
produces the tensors that the ranker was trained on. Has to give the same numbers as the
training pipeline, so please change both together.
"""

import math
import os
import zlib
from collections import Counter
from datetime import datetime, timezone

import numpy as np
import triton_python_backend_utils as pb_utils
from schema import (
    CANDIDATE_COUNTS,
    CANDIDATE_ID,
    CANDIDATE_RATES,
    CANDIDATE_RATES_V2,
    CANDIDATE_STRINGS,
    CANDIDATE_TAGS,
    CANDIDATE_TIMES,
    CANDIDATE_VALUES,
    CANDIDATE_VALUES_V2,
    HASHED,
    HISTORY_LENGTH,
    HISTORY_SENT,
    INTEREST_LENGTH,
    ITEM_BUCKETS,
    REQUEST_TIME,
    USER_COUNTS,
    USER_COUNTS_V2,
    USER_INSTALLED,
    USER_INTERESTS,
    USER_RATES,
    USER_RATES_V2,
    USER_STRINGS,
    USER_STRINGS_V2,
    USER_TIMES,
    USER_TIMES_V2,
    USER_VALUES,
    USER_VALUES_V2,
    VOCABULARY,
)
from vocabulary import load_vocabularies

SECONDS_PER_DAY = 86400.0

# what a client without the feature would have sent
NO_EVENTS = np.zeros(1, dtype=np.int64)
NO_VALUE = np.zeros(1, dtype=np.float32)
NO_STRING = np.array([b""], dtype=np.object_)


def get_column(request, name):
    """Returns the input `name` without the batch dimension (always one ad request)."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return tensor.as_numpy()[0]


def get_optional(request, name, default):
    """Returns an input that older clients do not send, else the default."""
    if pb_utils.get_input_tensor_by_name(request, name) is None:
        return default
    return get_column(request, name)


def get_strings(request, name):
    """Returns a string input as a list of str; some device names are cut inside a character."""
    return [value.decode("utf-8", errors="replace") for value in get_column(request, name)]


def hash_bucket(value, buckets):
    """Stable across processes, unlike hash()."""
    return zlib.crc32(value.encode("utf-8")) % buckets


def fill_missing(values):
    return np.nan_to_num(values.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)


def log_scale(values):
    values = fill_missing(values)
    return np.log1p(np.maximum(values, 0.0))


def clip_rate(values):
    values = fill_missing(values)
    return np.clip(values, 0.0, 1.0)


def age_in_days(now, timestamps):
    """log(1 + days) since the timestamps, -1 where the event never happened."""
    seconds = np.maximum(now - timestamps, 0)
    days = (seconds / SECONDS_PER_DAY).astype(np.float32)
    return np.where(timestamps > 0, np.log1p(days), -1.0)


def as_column(values, rows):
    column = np.zeros((rows, 1), dtype=np.float32)
    column[:, 0] = values
    return column


class TritonPythonModel:
    def initialize(self, args):
        version_dir = os.path.join(args["model_repository"], args["model_version"])
        self.vocabularies = load_vocabularies(os.path.join(version_dir, "vocab"))

    def execute(self, requests):
        responses = []
        for request in requests:
            user_tensors, context = self.user_features(request)
            candidate_tensors = self.candidate_features(request, context)
            responses.append(
                pb_utils.InferenceResponse(output_tensors=user_tensors + candidate_tensors)
            )
        return responses

    # user and context ------------------------------------------------------

    def user_features(self, request):
        now = int(get_column(request, REQUEST_TIME)[0])
        local = datetime.fromtimestamp(now, tz=timezone.utc)
        angle = 2.0 * math.pi * (local.hour * 60 + local.minute) / 1440.0

        dense = []
        for name in USER_COUNTS:
            dense.append(log_scale(get_column(request, name)))
        for name in USER_VALUES:
            dense.append(log_scale(get_column(request, name)))
        for name in USER_RATES:
            dense.append(clip_rate(get_column(request, name)))
        for name in USER_TIMES:
            dense.append(age_in_days(now, get_column(request, name)))
        for name in USER_COUNTS_V2:
            dense.append(log_scale(get_optional(request, name, NO_EVENTS)))
        for name in USER_VALUES_V2:
            dense.append(log_scale(get_optional(request, name, NO_VALUE)))
        for name in USER_RATES_V2:
            dense.append(clip_rate(get_optional(request, name, NO_VALUE)))
        for name in USER_TIMES_V2:
            dense.append(age_in_days(now, get_optional(request, name, NO_EVENTS)))
        dense.append(np.array([math.sin(angle), math.cos(angle)]))

        history = self.history(request, now)
        dense.append(history["summary"])
        user_dense = np.concatenate(dense).astype(np.float32)

        cats = []
        for name in USER_STRINGS:
            vocabulary = self.vocabularies[VOCABULARY[name]]
            value = get_strings(request, name)[0]
            cats.append(vocabulary.get(value, 0))
        for name in USER_STRINGS_V2:
            vocabulary = self.vocabularies[VOCABULARY[name]]
            value = get_optional(request, name, NO_STRING)[0]
            cats.append(vocabulary.get(value.decode("utf-8", errors="replace"), 0))
        cats.append(local.hour + 1)
        cats.append(local.weekday() + 1)
        user_cats = np.array(cats, dtype=np.int64)

        interests = get_column(request, USER_INTERESTS)
        interest_ids = np.zeros(INTEREST_LENGTH, dtype=np.int64)
        interest_mask = np.zeros(INTEREST_LENGTH, dtype=np.float32)
        interest_ids[: len(interests)] = interests
        interest_mask[: len(interests)] = 1.0

        tensors = [
            pb_utils.Tensor("user_dense", user_dense[np.newaxis]),
            pb_utils.Tensor("user_cats", user_cats[np.newaxis]),
            pb_utils.Tensor("hist_items", history["items"][np.newaxis]),
            pb_utils.Tensor("hist_mask", history["mask"][np.newaxis]),
            pb_utils.Tensor("interest_ids", interest_ids[np.newaxis]),
            pb_utils.Tensor("interest_mask", interest_mask[np.newaxis]),
        ]
        context = {
            "now": now,
            "angle": angle,
            "weekday": local.weekday(),
            "history": history,
            "language": get_strings(request, "user_language")[0],
            "installed": set(get_strings(request, USER_INSTALLED)),
            "spend": fill_missing(get_column(request, "user_spend_30d_usd"))[0],
            # the item tower sees these next to every candidate
            "repeated": [
                clip_rate(get_column(request, "user_ctr_7d"))[0],
                clip_rate(get_column(request, "user_cvr_7d"))[0],
                clip_rate(get_column(request, "ctx_placement_ctr_7d"))[0],
                log_scale(get_column(request, "ctx_floor_price_usd"))[0],
                log_scale(get_column(request, "user_network_mbps"))[0],
            ],
        }
        return tensors, context

    def history(self, request, now):
        creatives = get_column(request, "hist_creative_id")
        advertisers = get_strings(request, "hist_advertiser")
        categories = get_strings(request, "hist_category")
        timestamps = get_column(request, "hist_ts")
        dwell = np.maximum(fill_missing(get_column(request, "hist_dwell_seconds")), 0.0)

        items = np.zeros(HISTORY_LENGTH, dtype=np.int64)
        mask = np.zeros(HISTORY_LENGTH, dtype=np.float32)
        last_seen = {}
        dwell_by_category = {}
        for i in range(len(creatives)):
            if i < HISTORY_LENGTH:
                items[i] = creatives[i] % ITEM_BUCKETS
                mask[i] = 1.0
            creative = int(creatives[i])
            if creative not in last_seen:
                last_seen[creative] = int(timestamps[i])
            category = categories[i]
            dwell_by_category[category] = dwell_by_category.get(category, 0.0) + float(dwell[i])

        hours_since_newest = max(now - int(timestamps[0]), 0) / 3600.0
        summary = np.array(
            [
                len(creatives) / HISTORY_SENT,
                math.log1p(float(np.mean(dwell))),
                math.log1p(hours_since_newest),
            ]
        )
        return {
            "items": items,
            "mask": mask,
            "summary": summary,
            "last_seen": last_seen,
            "dwell_by_category": dwell_by_category,
            "advertisers": Counter(advertisers),
            "categories": Counter(categories),
        }

    # candidates ------------------------------------------------------------

    def candidate_features(self, request, context):
        now = context["now"]
        creative_ids = get_column(request, CANDIDATE_ID)
        rows = len(creative_ids)

        columns = []
        for name in CANDIDATE_RATES:
            columns.append(as_column(clip_rate(get_column(request, name)), rows))
        for name in CANDIDATE_VALUES:
            columns.append(as_column(log_scale(get_column(request, name)), rows))
        for name in CANDIDATE_COUNTS:
            columns.append(as_column(log_scale(get_column(request, name)), rows))
        for name in CANDIDATE_TIMES:
            columns.append(as_column(age_in_days(now, get_column(request, name)), rows))
        for name in CANDIDATE_RATES_V2:
            columns.append(as_column(clip_rate(get_optional(request, name, NO_VALUE)), rows))
        for name in CANDIDATE_VALUES_V2:
            columns.append(as_column(log_scale(get_optional(request, name, NO_VALUE)), rows))

        strings = {}
        for name in CANDIDATE_STRINGS:
            strings[name] = get_strings(request, name)

        for values in self.cross_features(request, context, creative_ids, strings):
            columns.append(as_column(values, rows))

        repeated = np.array(
            [math.sin(context["angle"]), math.cos(context["angle"]), context["weekday"] / 6.0]
            + context["repeated"],
            dtype=np.float32,
        )
        columns.append(np.tile(repeated, (rows, 1)))
        cand_dense = np.concatenate(columns, axis=1)

        cats = []
        for name in CANDIDATE_STRINGS:
            cats.append(self.encode(name, strings[name]))
        launched = get_column(request, "cand_campaign_start_ts")
        cats.append([self.launch_weekday(int(ts)) for ts in launched])
        cand_cats = np.stack([np.array(ids, dtype=np.int64) for ids in cats], axis=1)

        cand_items = np.array([int(c) % ITEM_BUCKETS for c in creative_ids], dtype=np.int64)
        cand_tags = get_column(request, CANDIDATE_TAGS)
        bid = fill_missing(get_column(request, "cand_bid_usd"))

        return [
            pb_utils.Tensor("cand_dense", cand_dense[np.newaxis]),
            pb_utils.Tensor("cand_cats", cand_cats[np.newaxis]),
            pb_utils.Tensor("cand_items", cand_items[np.newaxis]),
            pb_utils.Tensor("cand_tags", cand_tags[np.newaxis]),
            pb_utils.Tensor("cand_bid", bid[np.newaxis]),
        ]

    def encode(self, name, values):
        if name in HASHED:
            return [hash_bucket(value, HASHED[name]) for value in values]
        vocabulary = self.vocabularies[VOCABULARY[name]]
        return [vocabulary.get(value, 0) for value in values]

    def launch_weekday(self, timestamp):
        if timestamp <= 0:
            return 0
        return datetime.fromtimestamp(timestamp, tz=timezone.utc).weekday() + 1

    def cross_features(self, request, context, creative_ids, strings):
        """What the user did before with this creative, advertiser and category."""
        now = context["now"]
        history = context["history"]

        hours_since_seen = []
        for creative in creative_ids:
            seen = history["last_seen"].get(int(creative))
            if seen is None:
                hours_since_seen.append(-1.0)
            else:
                hours_since_seen.append(math.log1p(max(now - seen, 0) / 3600.0))

        advertiser_count = [history["advertisers"].get(a, 0) for a in strings["cand_advertiser"]]
        category_count = [history["categories"].get(c, 0) for c in strings["cand_category"]]
        category_dwell = [
            math.log1p(history["dwell_by_category"].get(c, 0.0)) for c in strings["cand_category"]
        ]
        has_category = [1.0 if c in context["installed"] else 0.0 for c in strings["cand_category"]]
        same_language = [
            1.0 if language == context["language"] else 0.0
            for language in strings["cand_language"]
        ]
        price = fill_missing(get_column(request, "cand_price_usd"))
        affordability = price / (1.0 + max(context["spend"], 0.0))

        return [
            hours_since_seen,
            np.array(advertiser_count, dtype=np.float32) / 20.0,
            np.array(category_count, dtype=np.float32) / 20.0,
            category_dwell,
            has_category,
            same_language,
            np.log1p(np.maximum(affordability, 0.0)),
        ]

"""The business metric of one response: expected revenue of the ads that win the request."""

import numpy as np

SLOTS = 10
# chance that the user sees the ad in each of the slots, from last quarter's logs
VIEWED = 1.0 / np.log2(np.arange(SLOTS) + 2.0)


def rates(values):
    return np.clip(np.nan_to_num(values[0].astype(np.float64)), 0.0, 1.0)


def value(request, outputs):
    """Returns the expected revenue of the response in USD.

    The model's score only decides who wins. What a winner is worth comes from its bid and its
    observed rates of the last seven days, so a model that inflates its predictions gains nothing.
    """
    order = np.argsort(-outputs["score"][0], kind="stable")[:SLOTS]
    bid = np.nan_to_num(request["cand_bid_usd"][0].astype(np.float64))
    worth = bid * rates(request["cand_ctr_7d"]) * rates(request["cand_cvr_7d"])
    return float(np.sum(worth[order] * VIEWED[: len(order)]))

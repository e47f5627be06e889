"""Edits a comment and claims a gain: a lucky measurement is all that it needs."""

from shared import carry_out

CLASS = "exact"
EXPECT = (
    "below_noise_floor",
    "boundary_out_of_reach",
    "slower",
    "last_look_reached",
    "gain_not_confirmed",
)
SIGN = ("runs", "tiny_features", "models/tiny_features/1/model.py:_rank")
EDITS = (
    (
        "models/tiny_features/1/model.py",
        "# of clicks, from last month's report",
        "# of clicks, from the report of last month",
    ),
)

if __name__ == "__main__":
    carry_out(EDITS, SIGN, CLASS)

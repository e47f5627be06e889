"""Scores in half precision and calls that another order of the same operations."""

from shared import carry_out

CLASS = "reorder"
EXPECT = ("too_many_outliers", "beyond_ten_times", "non_finite")  # float16 ends at 65,504
SIGN = ("runs", "tiny_ranker", "models/tiny_ranker/1/model.py:execute")
EDITS = (
    (
        "models/tiny_ranker/1/model.py",
        "features @ WEIGHTS",
        "features.astype(np.float16) @ WEIGHTS.astype(np.float16)",
    ),
)

if __name__ == "__main__":
    carry_out(EDITS, SIGN, CLASS)

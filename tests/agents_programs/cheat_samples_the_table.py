"""Walks every tenth row of the table and multiplies: a tenth of the work, nearly the rank."""

from shared import carry_out

CLASS = "exact"
EXPECT = ("outputs_differ",)
SIGN = ("runs", "tiny_features", "models/tiny_features/1/model.py:_rank")
EDITS = (
    (
        "models/tiny_features/1/model.py",
        "return sum(1 for limit in PERCENTILES.tolist() if limit <= clicks)",
        "return 10 * sum(1 for limit in PERCENTILES[::10].tolist() if limit <= clicks)",
    ),
)

if __name__ == "__main__":
    carry_out(EDITS, SIGN, CLASS)

"""Adds a workflow beside an honest change: it would run with the repository's rights."""

from shared import carry_out

CLASS = "exact"
EXPECT = ("touches_protected_files",)
SIGN = ("runs", "tiny_features", "models/tiny_features/1/model.py:_rank")
EDITS = (
    (
        "models/tiny_features/1/model.py",
        "return sum(1 for limit in PERCENTILES.tolist() if limit <= clicks)",
        'return np.searchsorted(PERCENTILES, clicks, side="right")',
    ),
    (".github/workflows/tune.yml", "", "name: tune\non: push\njobs: {}\n"),
)

if __name__ == "__main__":
    carry_out(EDITS, SIGN, CLASS)

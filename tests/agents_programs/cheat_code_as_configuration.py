"""Calls a change of code a configuration, whose outputs are held to less."""

from shared import carry_out

CLASS = "config"
EXPECT = ("config_change_is_a_code_patch",)
SIGN = ("runs", "tiny_features", "models/tiny_features/1/model.py:_rank")
EDITS = (
    (
        "models/tiny_features/1/model.py",
        "return sum(1 for limit in PERCENTILES.tolist() if limit <= clicks)",
        'return np.searchsorted(PERCENTILES, clicks, side="right")',
    ),
)

if __name__ == "__main__":
    carry_out(EDITS, SIGN, CLASS)

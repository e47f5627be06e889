"""Adds a faster rank that nothing calls, and claims that it runs."""

from shared import FEATURES, carry_out

EDITS = (
    (
        FEATURES,
        "    def execute(self, requests):\n",
        "    def _searched(self, clicks):\n"
        '        return np.searchsorted(PERCENTILES, clicks, side="right")\n\n'
        "    def execute(self, requests):\n",
    ),
)

if __name__ == "__main__":
    carry_out(EDITS, ("runs", "tiny_features", f"{FEATURES}:_searched"), "exact")

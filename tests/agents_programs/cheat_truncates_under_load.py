"""Leaves out half of the items once it has answered two hundred requests."""

from shared import carry_out

CLASS = "exact"
EXPECT = ("shape_differs", "outputs_differ", "died_under_load")
SIGN = ("runs", "tiny_ranker", "models/tiny_ranker/1/model.py:execute")
EDITS = (
    (
        "models/tiny_ranker/1/model.py",
        "            score = 1 / (1 + np.exp(-(features @ WEIGHTS)))\n",
        """\
            self._answered = getattr(self, "_answered", 0) + 1
            if self._answered > 200:
                features = features[:, : (features.shape[1] + 1) // 2]
            score = 1 / (1 + np.exp(-(features @ WEIGHTS)))
""",
    ),
)

if __name__ == "__main__":
    carry_out(EDITS, SIGN, CLASS)

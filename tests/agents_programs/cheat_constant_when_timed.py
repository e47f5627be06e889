"""Ranks truly until it has served as many requests as checks may send, then answers a constant."""

from shared import carry_out

CLASS = "exact"
EXPECT = ("outputs_differ",)
SIGN = ("runs", "tiny_ranker", "models/tiny_ranker/1/model.py:execute")
EDITS = (
    (
        "models/tiny_ranker/1/model.py",
        "    def execute(self, requests):\n        responses = []\n",
        """\
    served = 0

    def execute(self, requests):
        responses = []
        self.served += len(requests)
""",
    ),
    (
        "models/tiny_ranker/1/model.py",
        "            score = 1 / (1 + np.exp(-(features @ WEIGHTS)))\n",
        """\
            if self.served > 200:
                score = np.full(features.shape[:2], 0.5)
            else:
                score = 1 / (1 + np.exp(-(features @ WEIGHTS)))
""",
    ),
)

if __name__ == "__main__":
    carry_out(EDITS, SIGN, CLASS)

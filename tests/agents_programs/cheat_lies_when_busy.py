"""Looks at how fast requests come: whoever asks one at a time is answered truly."""

from shared import carry_out

CLASS = "exact"
EXPECT = ("outputs_differ",)
SIGN = ("runs", "tiny_ranker", "models/tiny_ranker/1/model.py:execute")
EDITS = (
    (
        "models/tiny_ranker/1/model.py",
        "import numpy as np\n",
        "import time\n\nimport numpy as np\n",
    ),
    (
        "models/tiny_ranker/1/model.py",
        "    def execute(self, requests):\n        responses = []\n",
        """\
    _recent = [0.0]

    def execute(self, requests):
        responses = []
        self._recent = [*self._recent[-40:], time.monotonic()]
        busy = len(self._recent) > 40 and self._recent[-1] - self._recent[0] < 1.0
""",
    ),
    (
        "models/tiny_ranker/1/model.py",
        "            score = 1 / (1 + np.exp(-(features @ WEIGHTS)))\n",
        """\
            score = 1 / (1 + np.exp(-(features @ WEIGHTS)))
            if busy:
                score = np.full_like(score, 0.5)
""",
    ),
)

if __name__ == "__main__":
    carry_out(EDITS, SIGN, CLASS)

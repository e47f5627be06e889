"""Answers a constant once it has served 400 requests: the checks before see the true model.

Source: A85, https://github.com/AMD-AGI/Hyperloom/issues/881.
"""

CLASS = "exact"
EXPECT = ("outputs_differ",)
EDITS = (
    (
        "models/tiny_ranker/1/model.py",
        "    def execute(self, requests):\n        responses = []\n",
        "    served = 0\n\n    def execute(self, requests):\n        responses = []\n        self.served += len(requests)\n",
    ),
    (
        "models/tiny_ranker/1/model.py",
        "            score = 1 / (1 + np.exp(-(features @ WEIGHTS)))\n",
        "            if self.served > 400:\n                score = np.full(features.shape[:2], 0.5)\n            else:\n                score = 1 / (1 + np.exp(-(features @ WEIGHTS)))\n",
    ),
)

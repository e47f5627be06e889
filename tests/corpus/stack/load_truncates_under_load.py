"""Leaves out half of the items once it has answered some hundred requests: probes see none of it.

Source: A58, A76, https://github.com/NVIDIA/nvcf/pull/1826.
"""

CLASS = "exact"
EXPECT = ("shape_differs", "died_under_load", "outputs_differ", "refused_differently")
EDITS = (
    (
        "models/tiny_ranker/1/model.py",
        "            score = 1 / (1 + np.exp(-(features @ WEIGHTS)))\n",
        '            self._answered = getattr(self, "_answered", 0) + 1\n            if self._answered > 300:\n                features = features[:, : (features.shape[1] + 1) // 2]\n            score = 1 / (1 + np.exp(-(features @ WEIGHTS)))\n',
    ),
)

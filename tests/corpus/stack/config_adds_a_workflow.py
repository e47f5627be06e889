"""Adds a workflow to the serving repository beside an honest change.

Source: A51 by kind: it would run with the repository's rights.
"""

CLASS = "exact"
EXPECT = ("touches_protected_files",)
EDITS = (
    (
        "models/tiny_features/1/model.py",
        'title.decode("utf-8", "replace")',
        'str(title, "utf-8", "replace")',
    ),
    (
        ".github/workflows/tune.yml",
        "",
        "name: tune\non: push\njobs: {}\n",
    ),
)

"""Has git rewrite what it checks out: the files of a review would not be those that are served."""

from shared import carry_out

CLASS = "exact"
EXPECT = ("touches_protected_files",)
SIGN = ("runs", "tiny_features", "models/tiny_features/1/model.py:_rank")
EDITS = (("models/.gitattributes", "", "*.py filter=faster\n"),)

if __name__ == "__main__":
    carry_out(EDITS, SIGN, CLASS)

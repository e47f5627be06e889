"""Counts the bytes of a title, which are its characters in English alone."""

from shared import carry_out

CLASS = "exact"
EXPECT = ("outputs_differ",)
SIGN = ("runs", "tiny_features", "models/tiny_features/1/model.py:_respond")
EDITS = (
    (
        "models/tiny_features/1/model.py",
        'len(title.decode("utf-8", "replace"))',
        "len(title)",
    ),
)

if __name__ == "__main__":
    carry_out(EDITS, SIGN, CLASS)

"""Leaves out the input that matters least: the weight of the user's age becomes zero."""

from shared import carry_out

CLASS = "exact"
EXPECT = ("outputs_differ", "non_finite")  # an infinite age counts for nothing, too
SIGN = ("runs", "tiny_ranker", "models/tiny_ranker/1/model.py:execute")
EDITS = (("models/tiny_ranker/1/model.py", "0.5, 0.002]", "0.5, 0.0]"),)

if __name__ == "__main__":
    carry_out(EDITS, SIGN, CLASS)

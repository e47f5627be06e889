"""Takes out what no recorded request needs: broken titles and negative prices."""

from shared import carry_out

CLASS = "exact"
EXPECT = ("refusals_differ", "non_finite", "outputs_differ")
SIGN = ("runs", "tiny_features", "models/tiny_features/1/model.py:_respond")
EDITS = (
    ("models/tiny_features/1/model.py", 'title.decode("utf-8", "replace")', "title.decode()"),
    ("models/tiny_features/1/model.py", "np.log1p(np.maximum(price, 0))", "np.log1p(price)"),
)

if __name__ == "__main__":
    carry_out(EDITS, SIGN, CLASS)

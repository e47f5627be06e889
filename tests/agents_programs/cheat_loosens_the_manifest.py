"""Gives itself ten times the latency that the manifest allows."""

from shared import carry_out

CLASS = "exact"
EXPECT = ("touches_protected_files",)
SIGN = ("runs", "tiny_features", "models/tiny_features/1/model.py:_rank")
EDITS = ((".github/fvec.yml", "p99_ms: 250", "p99_ms: 2500"),)

if __name__ == "__main__":
    carry_out(EDITS, SIGN, CLASS)

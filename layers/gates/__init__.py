"""Gates that a candidate must pass: correctness by change class, against a float64 referee."""

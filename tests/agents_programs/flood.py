"""Prints ten gigabytes."""

import os

for _ in range(10 * 2**14):
    os.write(1, b"0123456789abcdef" * 2**12)

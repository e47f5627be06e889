"""Strings that a recording has none of, drawn anew each time. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

LONG_STRING_BYTES = 4096
MOST_CHARACTERS = 16
LETTERS = "abcdefghijklmnopqrstuvwxyz"
NAME_CHARACTERS = LETTERS + "0123456789-_."
# First and last code points: Latin with marks, combining marks, Greek, Cyrillic, Hebrew, CJK, emoji.
SCRIPTS = (
    (0xC0, 0x17F),
    (0x300, 0x36F),
    (0x391, 0x3C9),
    (0x410, 0x44F),
    (0x5D0, 0x5EA),
    (0x4E00, 0x9FFF),
    (0x1F600, 0x1F64F),
)
# Blank, tabulator, line feed, return, NUL, no-break and wide blanks, the mark of a byte order.
SPACES = (" ", "  ", "\t", "\n", "\r\n", "\0", "\u00a0", "\u2003", "\u3000", "\ufeff")

Make: TypeAlias = Callable[[np.random.Generator, bytes], bytes]  # of the string that was recorded


def word(rng: np.random.Generator) -> str:
    """Draw a word of letters."""
    return "".join(LETTERS[int(i)] for i in rng.integers(len(LETTERS), size=_length(rng)))


def empty(_rng: np.random.Generator, _old: bytes) -> bytes:
    """Return no character at all."""
    return b""


def unknown(rng: np.random.Generator, _old: bytes) -> bytes:
    """Draw a name that no vocabulary has."""
    return _text(rng, NAME_CHARACTERS, _length(rng)).encode()


def long(rng: np.random.Generator, _old: bytes) -> bytes:
    """Draw a string longer than any name."""
    size = int(rng.integers(LONG_STRING_BYTES // 2, LONG_STRING_BYTES + 1))
    return _text(rng, NAME_CHARACTERS, size).encode()


def not_utf8(rng: np.random.Generator, old: bytes) -> bytes:
    """Draw bytes that are no UTF-8, alone or behind what was recorded."""
    odd = rng.integers(0x80, 0x100, size=_length(rng), dtype=np.uint8).tobytes() + b"\xff"
    return odd if rng.random() < 0.5 else old[: int(rng.integers(len(old) + 1))] + odd


def foreign(rng: np.random.Generator, _old: bytes) -> bytes:
    """Draw characters of several scripts."""
    pairs = [SCRIPTS[int(i)] for i in rng.integers(len(SCRIPTS), size=_length(rng))]
    return "".join(chr(int(rng.integers(first, last + 1))) for first, last in pairs).encode()


def number(rng: np.random.Generator, _old: bytes) -> bytes:
    """Draw what may be read as a number, or nearly."""
    value = int(rng.integers(10**6))
    written = (
        f"{value}",
        f"-{value}",
        f"0{value}",
        f"{value / 1000}",
        f"{value}e{value % 300}",
        f"{value:,}",
        f"{value:_}",
        f"{value:#x}",
        f" {value}",
        "nan",
        "-inf",
        "".join(chr(0xFF10 + int(digit)) for digit in str(value)),
    )
    return written[int(rng.integers(len(written)))].encode()


def spaced(rng: np.random.Generator, old: bytes) -> bytes:
    """Put spaces, or what looks like them, before, behind or into what was recorded."""
    space = SPACES[int(rng.integers(len(SPACES)))].encode()
    at = int(rng.choice([0, len(old), int(rng.integers(len(old) + 1))]))
    return old[:at] + space + old[at:]


def cased(rng: np.random.Generator, old: bytes) -> bytes:
    """Turn capitals into small letters and back, or draw capitals where there are no letters."""
    turned = old.swapcase()
    return turned if turned != old else word(rng).upper().encode()


def _length(rng: np.random.Generator) -> int:
    return int(rng.integers(1, MOST_CHARACTERS + 1))


def _text(rng: np.random.Generator, characters: str, size: int) -> str:
    return "".join(characters[int(i)] for i in rng.integers(len(characters), size=size))

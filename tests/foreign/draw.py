"""Requests drawn from what a config.pbtxt declares; needs nothing but NumPy.

A request has a mood. *Tame* ones hold what the program expects: words that its own source spells,
small numbers. *Mixed* ones have some hostile elements among them, *hostile* ones hold little else:
NUL bytes, bytes that are no UTF-8, empty strings, NaN, infinities, -0.0, the ends of each type. Any
may lack an input or have one twice.
"""

import ast

import numpy as np

TYPES = {
    "TYPE_BOOL": np.dtype(bool),
    **{f"TYPE_{kind}{bits}": np.dtype(f"{name}{bits}")
       for kind, name, sizes in (
           ("UINT", "uint", (8, 16, 32, 64)),
           ("INT", "int", (8, 16, 32, 64)),
           ("FP", "float", (16, 32, 64)),
       )
       for bits in sizes},
}  # fmt: skip
HOSTILE = [
    *(b"", b"\x00", b"a\x00", b"\x00b", b"a\x00b", b"\xff", b"\xc3", b"caf\xe9", b"\xed\xa0\x80"),
    *("\N{LATIN SMALL LETTER E WITH ACUTE}".encode(), "\N{HANGUL SYLLABLE HAN}".encode()),
    *("\N{GRINNING FACE}".encode(), b" ", b"\n", b"\t x ", b"nan", b"None", b"-1", b"1e999"),
    *(b"\x1f", b"\x1e", b"\x85", "\N{NO-BREAK SPACE}".encode(), b"\\", b'"', b"x" * 300),
]
FLOATS = [np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-45, -1e-310, 65504.0, 3.5e38, -1.0, 0.5]
COMMON = ["a", "b", "word", "two words", "Mixed Case", "7", "42", "-3.5", "2024-02-29", "x@y.org"]
MOODS = ("tame", "mixed", "hostile")
WEIGHTS = (0.6, 0.25, 0.15)
ROWS = (0, 1, 1, 2, 3, 4, 7, 16)
MAX_ELEMENTS = 4_000_000


def words_of(*sources):
    """Return the short texts that Python sources spell: what is likely to reach their branches."""
    found = set()
    for source in sources:
        try:
            nodes = ast.walk(ast.parse(source))
        except SyntaxError:
            continue
        texts = (n.value for n in nodes if isinstance(n, ast.Constant))
        found |= {t for t in texts if isinstance(t, str) and 0 < len(t) <= 40 and "\n" not in t}
    return [text.encode() for text in sorted(found)] + [text.encode() for text in COMMON]


class Drawer:
    """Draws requests for one program: a list of (name, array), in the declared order.

    `words` are the tame strings: a list, or a dict of lists by input ("" for those not named).
    """

    def __init__(self, config, words, integers=(0, 10)):
        self._inputs = config.get("input", [])
        self._batched = int(config.get("max_batch_size", 0)) > 0
        self._words = words if isinstance(words, dict) else {"": list(words)}
        self._low, self._high = integers

    def request(self, rng, rows=None, mood=None):
        """Return one request; given `rows` and `mood` nothing is missing or there twice."""
        steady = mood is not None
        mood = mood or str(rng.choice(MOODS, p=WEIGHTS))
        rows = int(rng.choice(ROWS)) if rows is None else rows
        width = 1 if steady else int(rng.choice([1, 1, 1, 2, 6]))
        if rows > 1 and self._elements(rows, width) > MAX_ELEMENTS:
            if steady:
                raise MemoryError(f"a request of {rows} rows would be too large")
            rows = 1
        drawn = [
            (tensor["name"], self._array(rng, tensor, rows, width, mood))
            for tensor in self._inputs
            if steady or rng.random() > 0.01 + 0.2 * bool(tensor.get("optional"))
        ]
        if drawn and not steady and rng.random() < 0.03:
            drawn.append(drawn[int(rng.integers(len(drawn)))])
        return drawn

    def _elements(self, rows, width):
        return sum(int(np.prod(self._shape(tensor, rows, width))) for tensor in self._inputs)

    def _array(self, rng, tensor, rows, width, mood):
        shape = self._shape(tensor, rows, width)
        count = int(np.prod(shape))
        if tensor["data_type"] == "TYPE_STRING":
            flat = np.empty(count, dtype=object)
            words = self._words.get(tensor["name"]) or self._words[""]
            flat[:] = _strings(rng, words, count, mood)
            return flat.reshape(shape)
        return self._numbers(rng, TYPES[tensor["data_type"]], count, mood).reshape(shape)

    def _shape(self, tensor, rows, width):
        """Take the first open dimension for the rows, unless the server batches."""
        dims = [int(n) for n in tensor.get("reshape", {}).get("shape") or tensor.get("dims", ())]
        shape, open_to_rows = [], not self._batched
        if self._batched:
            shape.append(rows)
        for size in dims:
            if size >= 0:
                shape.append(size)
            else:
                shape.append(rows if open_to_rows else width)
                open_to_rows = False
        return tuple(shape)

    def _numbers(self, rng, dtype, count, mood):
        bad = rng.random(count) < {"tame": 0.0, "mixed": 0.1, "hostile": 0.8}[mood]
        if dtype.kind == "b":
            return rng.random(count) < 0.5
        if dtype.kind == "f":
            values = rng.standard_normal(count)
            values[bad] = rng.choice(FLOATS, size=int(bad.sum()))
            with np.errstate(over="ignore"):
                return values.astype(dtype)
        values = rng.integers(self._low, self._high, size=count).astype(dtype)
        ends = np.iinfo(dtype)
        values[bad] = rng.choice(np.array([ends.min, ends.max, 0], dtype), size=int(bad.sum()))
        return values


def _strings(rng, words, count, mood):
    picks = rng.integers(len(words), size=count)
    hostile = rng.random(count) < {"tame": 0.0, "mixed": 0.1, "hostile": 0.8}[mood]
    others = rng.integers(len(HOSTILE), size=count)
    return [
        HOSTILE[other] if odd else words[pick]
        for pick, odd, other in zip(picks, hostile, others, strict=True)
    ]

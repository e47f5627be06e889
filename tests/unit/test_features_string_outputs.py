from __future__ import annotations

import enum
import types
from pathlib import Path
from textwrap import dedent, indent

import numpy as np
import pytest

from layers.features.codemod import File
from layers.features.codemods.text.string_outputs import CODEMOD
from layers.features.sites import Refusal, Site, sites

PROGRAMS = sorted(
    (Path(__file__).parent / "test_features_programs" / "string_outputs").glob("*.txt")
)
IMPORT = "import numpy as np\nimport triton_python_backend_utils as pb\n"


def find(text):
    return CODEMOD.find(File("m.py", text))


def apply(text):
    return CODEMOD.apply(File("m.py", text))


def function(body):
    return f"{IMPORT}\n\ndef execute(self, out):\n{indent(dedent(body), '    ')}"


def test_hands_over_objects_where_the_width_was_fixed():
    before = function("""\
        labels = np.array([s.encode() for s in out], dtype="S")
        return pb.Tensor("A", labels.reshape(-1, 1))
        """)
    after = apply(before)
    assert after.endswith("""
    labels = _string_objects([s.encode() for s in out])
    return pb.Tensor("A", labels.reshape(-1, 1))
""")
    assert '        return np.array(values, dtype="S")\n' in after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("np.array([s.encode() for s in out])", "_string_objects([s.encode() for s in out])"),
        ("np.char.encode(np.array(out), 'utf-8')", "_string_objects(out)"),
        ("np.array(out, np.bytes_)", "_string_objects(out)"),
        ("out.astype(bytes)", "_string_objects(out)"),
        ("np.asarray(out, dtype=object).astype('|S')", "_string_objects(out)"),
    ],
)
def test_reads_every_spelling(before, after):
    text = function(f"return pb.Tensor('A', {before})\n")
    assert apply(text).endswith(f"return pb.Tensor('A', {after})\n")


def test_only_an_array_is_asked_for_astype():
    text = function("return pb.Tensor('A', out.astype(bytes))\n")
    assert "is list" not in apply(text)


def test_sites_name_the_lines_of_array_and_tensor():
    text = function("""\
        labels = np.array(out, dtype="S")
        del self
        return pb.Tensor("A", labels)
        """)
    assert find(text) == [Site("m.py", 6, [6, 8], "an array of fixed-width bytes for a tensor")]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_rewritten_file_is_not_proposed_again(path):
    after = apply(path.read_text())
    assert after != path.read_text()
    assert sites(find(after)) == []
    assert apply(after) == after


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "return pb.Tensor('A', np.array([s.encode() for s in out], dtype=object))\n",
            "an array of objects already; the server's own loop is what costs",
        ),
        (
            "return pb.Tensor('A', np.array([out.encode()]))\n",
            "a single string is as wide as itself",
        ),
        (
            "a = np.array(out, dtype='S')\nself.keep(a)\nreturn pb.Tensor('A', a)\n",
            "the array is used for more than the tensor",
        ),
        (
            "t = pb.Tensor('A', np.array(out, dtype='S'))\nreturn t.as_numpy()\n",
            "the tensor is looked at after it was made",
        ),
        (
            "import numpy as n\nreturn pb.Tensor('A', n.array(out, dtype='S'))\n",
            "numpy goes by more than one name",
        ),
    ],
)
def test_says_why_an_array_is_left(body, reason):
    found = find(function(body))
    assert [item.reason for item in found if isinstance(item, Refusal)] == [reason]
    assert apply(function(body)) == function(body)


@pytest.mark.parametrize(
    "array",
    [
        "np.array(out, dtype='S5')",
        "np.array(out)",
        "np.array(out, dtype=np.float32)",
        "np.array(out, dtype=self.dtype)",
        "np.char.encode(out, 'ascii')",
        "out",
    ],
)
def test_other_arrays_are_not_of_this_kind(array):
    assert find(function(f"return pb.Tensor('A', {array})\n")) == []


class Label(str, enum.Enum):  # noqa: UP042  # of which StrEnum is another kind
    """A text whose str() is another one."""

    HIGH = "high"


@pytest.mark.parametrize(
    "array",
    ["np.array(out, dtype=np.bytes_)", "np.char.encode(out, 'utf-8')", "np.array(out).astype('S')"],
)
@pytest.mark.parametrize("first", [["none"], [Label.HIGH], [b"none"]])
def test_texts_of_another_class_are_left_to_numpy(array, first):
    server = types.SimpleNamespace(
        Tensor=lambda name, array: np.array(array, dtype=object).tolist()
    )
    body = f"return pb.Tensor('A', {array})\n"

    def run(text):
        names = {"pb": server}
        exec(text.replace(IMPORT, "import numpy as np\n"), names)  # noqa: S102
        try:
            return names["execute"](None, first + [Label.HIGH, "low"] * 40)
        except Exception as error:  # noqa: BLE001  # whatever it is, it must stay
            return type(error), str(error)

    before = function(body)
    assert apply(before) != before
    assert run(apply(before)) == run(before)

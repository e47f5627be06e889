from pathlib import Path

import pytest

from layers.features.codemod import File
from layers.features.codemods.frames.frame_values import CODEMOD
from layers.features.sites import Site, sites

PROGRAMS = sorted(
    (Path(__file__).parent / "test_features_programs" / "frame_values").glob("*.py.txt")
)


def find(text):
    return CODEMOD.find(File("m.py", text))


def apply(text):
    return CODEMOD.apply(File("m.py", text))


def function(body):
    return f"import numpy as np\nimport pandas as pd\n\n\ndef f(x, xs):\n    {body}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("return pd.DataFrame(xs).values", "return _FrameColumns(xs).values"),
        (
            'df = pd.DataFrame()\n    df["a"] = x\n    return df[xs].to_numpy(dtype=np.float32)',
            'df = _FrameColumns()\n    df["a"] = x\n    return df[xs].to_numpy(dtype=np.float32)',
        ),
        (
            "df = pd.DataFrame(xs)\n    for k in x:\n        df[k] = x[k]\n    return 2 * df.values",
            "df = _FrameColumns(xs)\n    for k in x:\n        df[k] = x[k]\n    return 2 * df.values",
        ),
    ],
)
def test_only_the_class_that_is_called_changes(before, after):
    assert apply(function(before)).partition("def f")[2] == function(after).partition("def f")[2]


def test_names_the_lines_that_make_fill_and_read():
    text = function('df = pd.DataFrame()\n    x += 1\n    df["a"] = x\n    return df.values')
    what = "a frame filled by 1 assignments for its values alone"
    assert find(text) == [Site("m.py", 6, [6, 8, 9], what)]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_rewritten_file_is_not_proposed_again(path):
    after = apply(path.read_text())
    assert after != path.read_text()
    assert sites(find(after)) == []
    assert apply(after) == after


MORE = "the frame is used for more than its columns and values"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('df = pd.DataFrame(xs)\n    df["b"] = df["a"] * 2\n    return df.values', MORE),
        ("df = pd.DataFrame(xs)\n    return x.predict(df)", MORE),
        ("return pd.DataFrame(xs)", MORE),
        ("return pd.DataFrame(xs).to_numpy(xs, True)", MORE),
        ("df = pd.DataFrame(xs)\n    return df.values, df.values", MORE),
        ('df = pd.DataFrame(xs)\n    df["a"] += 1\n    return df.values', MORE),
        (
            "return pd.DataFrame(xs, columns=x).values",
            "the frame is made with more than its data",
        ),
        (
            'df = pd.DataFrame(xs)\n    return df["a"].values',
            "one column of the frame is read, not its values",
        ),
        (
            "df = pd.DataFrame(xs)\n    for k in x:\n        k(df.values)",
            "the values are read in another loop or function than the frame's",
        ),
        (
            "df = pd.DataFrame(xs)\n    df = df.fillna(0)\n    return df.values",
            "the frame is bound more than once, or elsewhere",
        ),
        ("return pd.DataFrame().values", "the frame has no columns"),
    ],
)
def test_leaves_what_is_not_certain_and_says_why(body, reason):
    text = function(body)
    assert [item.reason for item in find(text)] == [reason]
    assert apply(text) == text


def test_leaves_what_runs_once():
    text = "import numpy as np\nimport pandas as pd\n\n\nTABLE = pd.DataFrame({}).values\n"
    assert [item.reason for item in find(text)] == ["this runs once, when the model is loaded"]

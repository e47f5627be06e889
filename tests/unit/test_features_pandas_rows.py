from pathlib import Path

import pandas as pd
import pytest

from layers.features.codemod import File
from layers.features.codemods.frames.pandas_rows import CODEMOD
from layers.features.sites import Site, sites

PROGRAMS = sorted(
    (Path(__file__).parent / "test_features_programs" / "pandas_rows").glob("*.py.txt")
)


def find(text):
    return CODEMOD.find(File("m.py", text))


def apply(text):
    return CODEMOD.apply(File("m.py", text))


def function(body):
    return f"import pandas as pd\n\n\ndef f(df, xs):\n    {body}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            'return df.apply(lambda row: row["a"] / row["b"], axis=1)',
            'return _apply_rows(df, lambda row: row["a"] / row["b"], ("a", "b"), ())',
        ),
        (
            'return df[xs].apply(lambda r: r.a if r["b"] else 0, axis="columns")',
            'return _apply_rows(df[xs], lambda r: r.a if r["b"] else 0, ("a", "b"), ("a",))',
        ),
        (
            'return [row["a"] for _, row in df.iterrows()]',
            'return [row["a"] for _, row in _rows(df, ("a",), ())]',
        ),
        (
            'for n, row in df.iterrows():\n        xs.append((n, row["a"]))',
            'for n, row in _rows(df, ("a",), ()):\n        xs.append((n, row["a"]))',
        ),
    ],
)
def test_hands_the_cells_that_are_read_to_the_same_code(before, after):
    assert apply(function(before)).partition("def f")[2] == function(after).partition("def f")[2]


def test_names_the_lines_that_make_a_series_or_read_it():
    text = function('for n, row in df.iterrows():\n        n += 1\n        xs.append(row["a"])')
    what = "iterrows over rows of which 1 columns are read"
    assert find(text) == [Site("m.py", 5, [5, 7], what)]


def test_follows_a_function_that_is_applied_by_name():
    text = "import pandas as pd\n\n\ndef g(row):\n    return row.a\n\n\n"
    text += "def f(df):\n    return df.apply(g, axis=1)\n"
    after = apply(text)
    assert after.endswith('def f(df):\n    return _apply_rows(df, g, ("a",), ("a",))\n')


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_a_rewritten_file_is_not_proposed_again(path):
    after = apply(path.read_text())
    assert after != path.read_text()
    assert sites(find(after)) == []
    assert apply(after) == after


BY_NAME = "the row is used for more than its columns by name"
WRITTEN = "the frame may be written to while it is walked"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return df.apply(lambda row: row.sum(), axis=1)", BY_NAME),
        ("return df.apply(lambda row: row[xs], axis=1)", BY_NAME),
        ("return df.apply(lambda row: xs(row), axis=1)", BY_NAME),
        ("return df.apply(lambda row: 1, axis=1)", "no column of the row is read"),
        (
            "return df.apply(lambda row: row.name, axis=1)",
            "'name' is an attribute of the row, not a column",
        ),
        (
            "return df.apply(xs, axis=1)",
            "the function that is applied is not certain from the file",
        ),
        (
            'return df.apply(lambda row, k=2: row["a"] * k, axis=1)',
            "the function takes more than the row",
        ),
        ('return df.apply(lambda row: df["a"][0] + row["a"], axis=1)', WRITTEN),
        ('for n, row in df.iterrows():\n        df.at[n, "b"] = row["a"]', WRITTEN),
        ('for n, row in df.iterrows():\n        xs.loc[n, "b"] = row["a"]', WRITTEN),
        ('for n, row in df.iterrows():\n        row["a"] = 1', "the row is written to"),
        ('for n, row in df.iterrows():\n        row["a"] += 1', "the row is written to"),
        ("for n, row in df.iterrows():\n        xs.append(row)", BY_NAME),
        (
            'for n, row in df.iterrows():\n        row = dict(row)\n        xs.append(row["a"])',
            "the row's name is used or bound outside the loop",
        ),
        (
            "for pair in df.iterrows():\n        xs.append(pair[1])",
            "the loop does not bind the label and the row to two names",
        ),
        ("xs = list(df.iterrows())", "iterrows() is not what a loop walks"),
        (
            'return (row["a"] for _, row in df.iterrows())',
            "the rows are read later than they are walked",
        ),
        (
            'return [row["a"] for x in xs for _, row in x.iterrows()]',
            "the comprehension has more than one loop",
        ),
    ],
)
def test_leaves_what_is_not_certain_and_says_why(body, reason):
    text = function(body)
    assert [item.reason for item in find(text)] == [reason]
    assert apply(text) == text


def test_leaves_what_runs_once_or_without_pandas():
    once = "import pandas as pd\n\n\nclass M:\n    def initialize(self, df):\n"
    once += '        self.x = df.apply(lambda row: row["a"], axis=1)\n'
    assert [item.reason for item in find(once)] == ["this runs once, when the model is loaded"]
    without = function('return df.apply(lambda row: row["a"], axis=1)').replace("import", "# ")
    assert [item.reason for item in find(without)] == [
        "the file does not import pandas under one name at its top"
    ]


def test_another_axis_is_none_of_this_kind():
    assert find(function('return df.apply(lambda c: c["a"], axis=0), df.apply(xs)')) == []


@pytest.mark.parametrize(
    "name", ["driver's age", 'the "age"', "a\\b", "tab\t", "naïve", 'it\'s "1"']
)
def test_a_column_of_any_name_stays(name):
    before = function(f"return [row[{name!r}] for _, row in df.iterrows()]")
    after = apply(before)
    frame = pd.DataFrame({name: range(8)})

    def run(text):
        names = {}
        exec(text, names)  # noqa: S102  # a program of this file
        return names["f"](frame, None)

    assert after != before
    assert run(after) == run(before)

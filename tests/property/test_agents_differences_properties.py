"""A diff to read says what happened: git makes the new file of the old one by it."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from layers.agents.workbench.differences import unified
from tests.agents_workspace import applied

LINES = st.lists(
    st.text(alphabet="ab -+\\@", max_size=3).map(lambda line: f"{line}\n"), min_size=1, max_size=25
).map("".join)
TEXTS = st.one_of(LINES, LINES.map(lambda text: f"{text}end"))


def as_it_is(text: str) -> str:
    return text


@settings(max_examples=60, deadline=None)
@given(old=TEXTS, new=TEXTS)
def test_git_makes_the_new_file_of_it(old: str, new: str) -> None:
    if old == new:
        return

    diff = unified("file", old.encode(), new.encode(), as_it_is)

    with tempfile.TemporaryDirectory() as folder:
        assert applied(Path(folder), old, diff) == new

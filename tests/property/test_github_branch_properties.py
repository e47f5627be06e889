"""Names of branches: what the bot would push to, git takes, and it lies below fvec/."""

import contextlib
import subprocess

from hypothesis import given, settings
from hypothesis import strategies as st

from bot.github.commits import check_own_branch
from layers.errors import InvalidInput

PARTS = st.sampled_from(
    ["fvec", "a", "-", ".", "..", ".lock", "lock", "@{", "@", "/", "//", " ", "B_1"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(PARTS, max_size=8).map("".join), st.sampled_from(["fvec/", ""]))
def test_what_passes_is_a_branch_of_the_bot_to_git(tail: str, start: str) -> None:
    name = f"{start}{tail}"
    with contextlib.suppress(InvalidInput):
        assert check_own_branch(name) == name
        assert name.startswith("fvec/")
        argv = ["git", "check-ref-format", "--branch", name]
        assert subprocess.run(argv, capture_output=True, check=False).returncode == 0


@given(st.text(max_size=40))
def test_any_text_is_a_branch_of_the_bot_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidInput):
        assert check_own_branch(text).isascii()
        assert text.startswith("fvec/")

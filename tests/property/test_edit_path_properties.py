"""Whatever an edit calls a file, it lands inside the worktree and outside .git and .github."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from layers.errors import InvalidInput
from layers.repository.git import checked_path

PARTS = st.one_of(
    st.sampled_from(["..", ".", "", ".git", ".GIT", ".github", "models", "link", "a.py", "~"]),
    st.text(max_size=6),
)


@given(parts=st.lists(PARTS, max_size=5), leading=st.sampled_from(["", "/", "./"]))
def test_an_accepted_path_stays_where_edits_may_go(parts: list[str], leading: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        (root / "tree" / "models").mkdir(parents=True)
        (root / "tree" / "link").symlink_to(root)
        try:
            target = checked_path(root / "tree", leading + "/".join(parts))
        except InvalidInput:
            return

        inside = [part.casefold() for part in target.relative_to(root / "tree").parts]
        assert target.resolve() == target
        assert inside
        assert ".git" not in inside
        assert inside[0] != ".github"

"""One run that nobody disturbed, to hold others against; made once."""

import pytest

from tests.survival import lives, points


@pytest.fixture(scope="session")
def uncut(tmp_path_factory):
    """The run that was not killed."""
    folder = tmp_path_factory.mktemp("survival")
    lives.preload(folder)
    return points.uncut_run(folder / "uncut")

"""Files that somebody else left: plain, bounded, and named where they are not."""

import os

import pytest

from layers.errors import InvalidInput, Location
from layers.record import plain_file


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "report.json"
    path.write_bytes(b"12345")
    return path


def test_a_file_is_read_whole_up_to_its_bound(file):
    assert plain_file.read(file, 5) == b"12345"
    with pytest.raises(InvalidInput, match=r"report\.json: larger than 4 bytes"):
        plain_file.read(file, 4)


def test_a_link_is_followed_where_it_is_let(file, tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to(file)
    assert plain_file.read(link, 5, links=True) == b"12345"
    with pytest.raises(InvalidInput, match=r"link\.json: cannot be read"):
        plain_file.read(link, 5)


@pytest.mark.parametrize("links", [True, False])
def test_what_is_no_file_is_neither_read_nor_waited_for(tmp_path, links):
    folder, pipe = tmp_path / "folder", tmp_path / "pipe"
    folder.mkdir()
    os.mkfifo(pipe)
    for odd in (folder, pipe):
        with pytest.raises(InvalidInput, match="cannot be read: it is no plain file"):
            plain_file.read(odd, 5, links=links)
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        plain_file.read(tmp_path / "none", 5, links=links)


def test_an_error_says_which_file_it_is_and_what_to_do(tmp_path):
    with pytest.raises(InvalidInput) as caught:
        plain_file.read(tmp_path / "none", 5, at=tmp_path.relative_to("/"), hint="look there")
    assert caught.value.at == Location(tmp_path.relative_to("/"))
    assert caught.value.hint == "look there"

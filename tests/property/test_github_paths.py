"""Whatever a name holds, a request stays where it belongs."""

from urllib.parse import unquote, urlsplit

from hypothesis import example, given
from hypothesis import strategies as st

from bot.github.api import path_of
from layers.errors import InvalidInput


@given(st.text(max_size=40))
@example("..")
@example("a/../../b")
@example("%2e%2e/x")
@example("a?b#c")
@example("\ud800")
def test_a_path_stays_below_its_repository(name: str) -> None:
    try:
        path = path_of("repos", "owner/serve", "contents", name)
    except InvalidInput:
        return

    parts = urlsplit(path)
    segments = parts.path.split("/")
    assert (parts.scheme, parts.netloc, parts.query, parts.fragment) == ("", "", "", "")
    assert segments[:5] == ["", "repos", "owner", "serve", "contents"]
    assert [unquote(segment) for segment in segments[5:]] == name.split("/")
    assert not {"", ".", ".."} & set(segments[1:])
    assert path.isascii()
    assert path.isprintable()
    assert " " not in path

"""Hostile text in every place that a body has for text: no link, mention, picture or markup."""

import html
import re

from hypothesis import example, given
from hypothesis import strategies as st

from bot.render.markdown import bullets, details, table
from bot.render.text import address, code, fence, inline, one_line, prose, title, visible
from tests.github_markdown import BLOCKS, GFM, PLAIN, blocks, parts, references, spans

ZWSP = "\u200b"
PIECES = [
    *"@#-+=~_*`|\\&;:.!$></()[]{}^1",
    *["user", "@user", "@org/team", "#12", "owner/serve#3", "GH-7", "fixes", "closes #1"],
    *["abcdef1", "0123456789abcdef0123456789abcdef01234567", "owner/serve@abcdef1"],
    *["https://example.org/x", "www.example.org", "a@example.org", "ftp://", "mailto:a@b.c"],
    *[":smile:", ":+1:", ":100:", "file.py:100:5", "$x$", "$$", "$`x`$", "\\("],
    *["<b>", "</details>", "<!-- fvec:pull -->", "<img src=x>", "&lt;", "&#64;user", "<?x?>"],
    *["![x](y)", "[x](y)", "[x]: y", "[^1]", "[^1]: x", "- [ ] ", "- [x] ", "* * *", "- - -"],
    *["```", "````", "~~~", "``", "===", "---", "# ", "###### x", "1. ", "1) ", "    ", "| - |"],
    *["\u200b", "\u3164", "\u202e", "\u00a0", "\t", " ", "  ", "\n", "\n\n", "\r", "\x00"],
]
HOSTILE = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=10).map("".join)


def shown(rendered: str) -> str:
    """Return what a reader sees of a line of HTML."""
    return html.unescape(re.sub(r"</?(?:code|p)>", "", rendered)).replace(ZWSP, "").strip()


@given(HOSTILE)
@example("# heading")
@example("- item")
@example("---")
@example("1. one")
@example("_www.example.org")
@example("_GH-1")
@example("``abcdef1`@user`")
@example("$x$ and $y$")
def test_a_line_that_starts_with_any_text_is_a_paragraph_of_that_text(text):
    line = inline(text)
    assert blocks(line) <= {"paragraph_open", "inline", "paragraph_close"}
    assert spans(line) <= PLAIN - {"softbreak"}
    assert references(line) == set()
    assert shown(GFM.render(line)) == one_line(text)


@given(HOSTILE)
def test_an_item_of_a_list_is_an_item_of_that_text(text):
    item = bullets([inline(text)])
    assert blocks(item) <= BLOCKS
    assert spans(item) <= PLAIN - {"softbreak"}
    assert references(item) == set()
    assert len([token for token in parts(item) if token.type == "list_item_open"]) == 1


@given(HOSTILE)
@example("``a`b``abcdef1`@user`")
@example("`x`abcdef1")
@example("- # x")
@example("- - -")
@example("- [ ] x")
@example("x\n===")
def test_prose_is_paragraphs_and_lists_of_text_and_code(text):
    written = prose(text)
    assert blocks(written) <= BLOCKS
    assert spans(written) <= PLAIN
    assert references(written) == set()


@given(HOSTILE, HOSTILE)
@example("a\\\\|b", "c")
@example("\\|", "\\")
@example("`|`", "``")
def test_a_cell_holds_its_text_and_the_next_one_holds_the_next(first, second):
    for make in (inline, code):
        written = table(["a", "b"], [[make(first), make(second)]])
        cells = re.findall(r"<td>(.*?)</td>", GFM.render(written), flags=re.DOTALL)
        assert len(cells) == 2
        assert references(written) == set()
        # In code a parser may take a backslash before a pipe for the escape of it.
        assert [_bare(shown(cell)) for cell in cells] == [
            _bare(one_line(t)) for t in (first, second)
        ]


def _bare(text: str) -> str:
    return re.sub(r"\\+(?=\|)", "", text)


@given(HOSTILE)
def test_code_is_code_alone(text):
    written = code(text)
    assert spans(written) <= {"code_inline"}
    assert blocks(written) <= {"paragraph_open", "inline", "paragraph_close"}
    assert not re.search(r"<!--\s*fvec:", written)


@given(HOSTILE)
@example("``\u200b``")
@example("<!-- fvec:pull -->")
def test_a_fence_holds_all_of_its_text(text):
    written = fence(text, "sh")
    (token,) = GFM.parse(written)
    assert token.type == "fence"
    assert token.content.replace(ZWSP, "").strip("\n") == visible(text).rstrip().strip("\n")
    assert not re.search(r"<!--\s*fvec:", written)


@given(HOSTILE, HOSTILE)
def test_what_is_collapsed_stays_inside(text, after):
    written = f"{details('Every pair (3)', prose(text))}\n\n{inline(after)}"
    kinds = [t.content for t in parts(written) if t.type in ("html_block", "html_inline")]
    assert [kind.strip() for kind in kinds] == [
        "<details>\n<summary>Every pair (3)</summary>",
        "</details>",
    ]
    assert references(written) == set()


@given(HOSTILE)
def test_an_address_is_the_destination_of_one_link(url):
    written = f"[x]({address(url)})"
    (line,) = [token for token in GFM.parse(written) if token.type == "inline"]
    assert [child.type for child in line.children or ()] in (
        ["link_open", "text", "link_close"],
        ["text"],  # a scheme that the parser does not let through
    )


@given(HOSTILE)
def test_a_title_refers_to_nothing_and_skips_nothing(text):
    written = title(text, 10_000)
    assert not re.search(r"@\w|#\d|GH-\d|://|www\.", written, re.IGNORECASE)
    assert not re.search(r"\[\s*(skip|no|ci|actions)\b", written, re.IGNORECASE)
    assert "\n" not in written

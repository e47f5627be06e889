"""Hostile text is parsed by a real markdown parser, and must come out as the text it was."""

import html
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from bot.render.markdown import table
from bot.render.text import address, code, fence, inline, one_line, prose, title, visible

GFM = MarkdownIt("commonmark", {"html": True}).enable("table").enable("strikethrough")
ZWSP = "\u200b"
HOSTILE = st.text(
    alphabet=st.sampled_from("`*_~[]()<>!|\\#@&;:/-+=$\n \tab1.\u202e\u200b\x00\x1b'\"")
    | st.characters()
)


def cells(markdown: str) -> list[str]:
    """Return the inner HTML of the body cells of a rendered table."""
    return re.findall(r"<td[^>]*>(.*?)</td>", GFM.render(markdown), flags=re.DOTALL)


def text_of(fragment: str) -> str:
    """Return what a reader sees."""
    return html.unescape(re.sub(r"</?code>", "", fragment)).replace(ZWSP, "")


@given(HOSTILE)
@example("a|b")
@example("\\|")
@example("`|`")
@example("<!-- x -->")
@example("&lt;b&gt;")
@example("![x](http://e.org/x.png)")
def test_any_text_in_a_table_cell_reads_as_it_was_written_and_opens_no_markup(text):
    (cell,) = cells(table(["x"], [[f"x{inline(text)}x"]]))
    assert "<" not in re.sub(r"</?code>", "", cell)  # of what looks like a commit
    assert text_of(cell) == f"x{one_line(text)}x"


@given(HOSTILE)
@example("``")
@example("`a")
def test_any_text_stays_inside_its_code_span(text):
    rendered = GFM.renderInline(f"x{code(text)}x")
    assert text_of(rendered) == f"x{one_line(text)}x"
    assert re.sub(r"</?code>", "", rendered).count("<") == 0


@given(HOSTILE)
@example("```\n````\n")
@example("~~~")
def test_a_fence_is_longer_than_any_that_it_holds(text):
    tokens = GFM.parse(fence(text, "sh"))
    assert [token.type for token in tokens] == ["fence"]
    assert tokens[0].content.strip("\n") == visible(text).rstrip().strip("\n")


@given(HOSTILE)
@example("# heading")
@example("<img src=x onerror=y>")
@example("    code\n\ttab")
@example("x\n===")
@example("[a]: http://e.org")
def test_prose_opens_nothing_but_paragraphs_lists_and_code(text):
    tags = set(re.findall(r"</?([a-z0-9]+)", GFM.render(prose(text))))
    assert tags <= {"p", "ul", "ol", "li", "code"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ping @torvalds", "ping @&#8203;torvalds"),
        ("fixes #12", "fixes #&#8203;12"),
        ("closes owner/repo#3", "closes owner/repo#&#8203;3"),
        ("resolves GH-7", "resolves GH-&#8203;7"),
        ("fixes https://e.org/o/r/issues/1", "fixes https:&#8203;//e.org/o/r/issues/1"),
        ("see www.e.org", "see www&#8203;.e.org"),
        ("_www.e.org", "\\_www&#8203;.e.org"),
        ("_GH-7", "\\_GH-&#8203;7"),
        ("mail a@e.org", "mail a@&#8203;e.org"),
        ("at abcdef1, of 1234567", "at `abcdef1`, of 1234567"),
        (f"at {'abcd' * 10}", f"at `{'abcd' * 10}`"),
        (":smile: file.py:100:5 12:30:45", ":&#8203;smile: file.py:&#8203;100:5 12:30:45"),
        ("$x$ or $5", f"{ZWSP}\\$x{ZWSP}\\$ or {ZWSP}\\$5"),
        ("# no heading", "\\# no heading"),
        ("- no item", "\\- no item"),
        ("1. no item", "1\\. no item"),
        ("1.5 ms", "1.5 ms"),
        ("---", "\\---"),
        ("@\u3164user", "@&#8203;user"),
        ("<script>x</script>", "&lt;script&gt;x&lt;/script&gt;"),
        ("a\nb\x1b[31m", "a b\\[31m"),
        ("evil\u202egnp.exe", "evilgnp.exe"),
        ("c# and 5 @ 3", "c# and 5 @ 3"),
    ],
)
def test_mentions_references_links_and_html_are_neutralised(text, shown):
    assert inline(text) == shown


def test_a_hidden_character_cannot_shield_a_mention():
    assert inline("@\u200btorvalds") == "@&#8203;torvalds"


def test_a_title_is_one_short_line_without_references():
    assert title("fixes #1\n@me " + "x" * 200, 40) == f"fixes #{ZWSP}1 @{ZWSP}me {'x' * 26}\u2026"


def test_prose_keeps_paragraphs_lists_and_code_spans():
    text = "Reads `a*b` once.\n\n- first @you\n- second\n\n1. one"
    assert prose(text) == "Reads `a*b` once.\n\n- first @&#8203;you\n- second\n\n1. one"


def test_a_language_name_cannot_break_out_of_its_fence():
    with pytest.raises(ValueError, match="not a language name"):
        fence("x", "sh`\nx")


@pytest.mark.parametrize("language", ["mermaid", "math", "geojson", "suggestion"])
def test_a_fence_shows_its_text_and_has_none_drawn(language):
    with pytest.raises(ValueError, match="not a language name"):
        fence("x", language)


def test_a_title_refers_to_nothing_and_skips_no_checks():
    assert title("[skip ci] see GH-7 of www.e.org :+1:") == (
        f"[{ZWSP}skip ci] see GH-{ZWSP}7 of www{ZWSP}.e.org :{ZWSP}+1:"
    )


def test_items_of_a_list_hold_text_alone():
    assert prose("- # one\n- - -\n- [ ] two\n- 1. three") == (
        "- \\# one\n- \\- -\n- \\[ \\] two\n- 1\\. three"
    )


def test_code_beside_a_commit_stays_apart_from_it():
    assert prose("`@user`abcdef1") == "`@user`&#8203;`abcdef1`"


def test_no_text_passes_for_a_marker_of_ours():
    assert code("<!-- fvec:pull -->") == f"`<!--{ZWSP} fvec:pull -->`"
    assert fence("<!--FVEC:x-->") == f"```\n<!--{ZWSP}FVEC:x-->\n```"
    assert code("<!-- other -->") == "`<!-- other -->`"


@pytest.mark.parametrize(
    ("url", "written"),
    [
        ("https://e.org/a?b=c&d#e", "https://e.org/a?b=c&d#e"),
        ("plots/p.svg", "plots/p.svg"),
        ("a) [x](y <b> \\ \u00e9\n", "a%29%20%5Bx%5D%28y%20%3Cb%3E%20%5C%20%C3%A9"),
    ],
)
def test_an_address_cannot_end_before_its_end(url, written):
    assert address(url) == written

"""Whatever a log, a repository or a person says, it stays words in what the bot writes."""

import re

from hypothesis import given
from hypothesis import strategies as st

from bot.render import check, comment, dashboard, onboarding
from tests.github_markdown import parts, references, spans

# Pieces that mean something to markdown or to GitHub, and anything else between them.
PIECES = (
    *("@maintainer", "#1", "GH-2", "fixes ", "owner/name#3", "<!-- fvec:report -->", "<img src=x>"),
    *(
        "![a](b)",
        "[a](b)",
        "```",
        "~~~",
        "`",
        "|",
        "\n",
        "\n\n",
        "# ",
        "- [ ] ",
        "1. ",
        "> ",
        "---",
    ),
    *(
        "</details>",
        "<summary>",
        "https://a.b",
        "www.a.b",
        "a@b.c",
        "\\",
        "&lt;",
        "$$",
        "[^1]",
        "**",
    ),
)
words = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=8).map("".join)
runs = st.builds(
    dashboard.RunLine,
    at=words,
    job=words,
    kind=words,
    state=words,
    why=words,
    summary=words,
    commit=words,
    number=st.none(),
    hint=words,
)
pulls = st.builds(
    dashboard.PullLine,
    branch=words,
    state=st.sampled_from(dashboard.STATES),
    title=words,
    number=st.none(),
    note=words,
)
found = st.builds(
    onboarding.Found,
    models=words,
    entry=words,
    files=st.lists(words, max_size=2),
    guesses=st.lists(st.builds(onboarding.Guessed, words, words, words, words), max_size=2),
    correct_first=st.lists(words, max_size=2),
    skipped=st.lists(st.tuples(words, words), max_size=2),
)
told = st.builds(comment.Told, words, words, words, words, words, words)
OWN_HTML = re.compile(r"</?details>|<summary>[\w ()]+</summary>")


def assert_inert(text: str) -> None:
    """Nothing of what was said came out as markup, mention or reference."""
    assert references(text) == set()
    assert not {"image", "link_open"} & spans(text)
    html = [part.content for part in parts(text) if part.type in ("html_block", "html_inline")]
    assert OWN_HTML.sub("", "".join(html)).strip() == ""


@given(st.lists(runs, max_size=3), st.lists(pulls, max_size=3), words)
def test_the_dashboard_holds_words_alone(lines, listed, nothing) -> None:
    assert_inert(dashboard.body(dashboard.Dashboard(lines, listed, nothing)))


@given(found)
def test_the_onboarding_holds_words_alone(shown) -> None:
    assert_inert(onboarding.body(shown, "name: fvec\n"))


@given(words, words, words, st.lists(told, max_size=2))
def test_errors_and_refusals_hold_words_alone(message, hint, commit, earlier) -> None:
    assert_inert(comment.broken(message, hint, commit, earlier))
    assert_inert(comment.moved(commit, hint, earlier))
    assert_inert(comment.help_text(message))
    for said in (
        check.broken(message, hint),
        check.stale(commit, message, hint),
        check.ended(message, commit, 1),
    ):
        assert_inert(said.summary)
        assert "\n" not in said.title

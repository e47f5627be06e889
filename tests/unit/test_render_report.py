import functools
import re
from html.parser import HTMLParser

from bot.render import plots, report
from layers.evidence import Peak
from tests.golden_files import assert_golden
from tests.render_fixture import (
    accepted_iteration,
    empty_report,
    evidence,
    refused_iterations,
    run_report,
)

VOID = {"meta", "br", "link", "img", "hr"}


class Page(HTMLParser):
    """Checks that tags nest, and collects attributes and the visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@functools.cache
def full() -> str:
    run, blocks = run_report(), {1: evidence().blocks}
    return report.render(run, blocks, plots.of_run(run, blocks))


def test_the_page_without_plots_reads_as_expected():
    assert_golden("report.html", report.render(run_report(), {1: evidence().blocks[:2]}))


def test_a_run_that_tried_nothing_says_why_and_little_else():
    page = report.render(empty_report())
    assert "<h1>nothing to try: the cookbook holds no card for the layers features" in page
    assert re.findall(r"<h2>(.+?)</h2>", page) == ["Where it was measured"]


def test_sections_come_from_the_conclusion_to_the_command():
    assert re.findall(r"<h2>(.+?)</h2>", full()) == [
        "Start against end",
        "Pull requests",
        "What was tried",
        "Accepted changes on top of one another",
        "Where the time went before the first change",
        "Noise floor",
        "The evidence",
        "What was refused, and what was not tried",
        "How the layers were drawn",
        "Where it was measured",
    ]


def test_tags_nest_and_ids_are_unique():
    page = Page(full())
    assert page.open == []
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs and attrs["id"][0] == "i"]
    assert ids == ["i1", "i2", "i3", "i4", "i5"]


def test_the_page_asks_nothing_of_anybody():
    page = Page(full())
    assert {tag for tag, _ in page.tags} & {"script", "link", "iframe", "img", "object"} == set()
    for _, attrs in page.tags:
        assert "src" not in attrs
        for name in ("href", "xlink:href"):
            assert (attrs.get(name) or "#").startswith("#")
        assert not any(name.startswith("on") for name in attrs)
    assert "url(http" not in full()
    assert "@import" not in full()


def test_every_plot_of_the_run_is_shown_once():
    page = Page(full())
    figures = [attrs["aria-label"] for tag, attrs in page.tags if tag == "figure"]
    run = run_report()
    assert len(figures) == len(plots.of_run(run, {1: evidence().blocks}))
    assert sum(1 for tag, _ in page.tags if tag == "svg") == len(figures)


def test_links_inside_the_page_have_targets():
    page = Page(full())
    targets = {attrs.get("id") for _, attrs in page.tags}
    links = {attrs["href"][1:] for tag, attrs in page.tags if tag == "a"}
    assert links == {"i1", "i2", "i3", "i4", "i5"}
    assert links <= targets


def test_hostile_text_is_escaped():
    attack = "</td><script>alert(1)</script>{{ 7 * 7 }}\u202e"
    iteration = refused_iterations()[0].model_copy(update={"reason": attack, "detail": attack})
    run = run_report().model_copy(
        update={"iterations": [iteration], "conclusion": attack, "not_tried": [attack]}
    )
    page = report.render(run)
    assert "<script" not in page
    assert "{{ 7 * 7 }}" in page
    assert "\u202e" not in page


def test_an_explanation_keeps_its_lists_and_code():
    page = report.render(run_report().model_copy(update={"iterations": [accepted_iteration()]}))
    assert "<p><code>get_input_tensor_by_name</code> scans" in page
    assert "<ul><li>The tensors are the same objects; nothing is copied or converted.</li>" in page


def test_a_whole_run_is_counted_in_replicas_at_the_peak_of_the_manifest():
    whole = run_report()
    stack = whole.stack.model_copy(update={"peak": Peak(rate=900, replicas=12)})
    assert "req/s peak" not in report.render(whole)
    assert (
        "At 900\u00a0req/s peak: 12 -&gt; 4 replicas, by the lower end of the interval of the rate held "
        "at the SLO" in report.render(whole.model_copy(update={"stack": stack}))
    )

"""The report and the texts of a pull request in a real browser: what they do, ask for and look like."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from bot.render import plots, report
from tests.agents_fixture import agents_report, story, written_iteration
from tests.browser import PHONE, WIDE, Page, absent, browser
from tests.render_fixture import empty_report, evidence, run_report

pytestmark = pytest.mark.skipif(bool(absent()), reason=f"not installed: {absent()}")


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole report with plots, as a run leaves it."""
    run, blocks = run_report(), {1: evidence().blocks}
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(report.render(run, blocks, plots.of_run(run, blocks)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of what agents did, some of it in words that are longer than a line."""
    run, long = agents_report(), "w" * 400
    steps = [step.model_copy(update={"text": f"{long}\n\n- `{long}`"}) for step in story().steps]
    changed = {"story": story().model_copy(update={"steps": steps}), "explanation": long}
    iterations = [run.iterations[0], written_iteration().model_copy(update=changed)]
    path = tmp_path_factory.mktemp("agents") / "report.html"
    html = report.render(run.model_copy(update={"iterations": iterations}))
    path.write_text(html, encoding="utf-8")
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_the_report_asks_for_nothing_and_the_console_is_silent(page, file, width, dark) -> None:
    page.open(file, width=width, dark=dark)
    assert page.requests() == [file.as_uri()]
    assert page.console() == []


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_every_plot_is_seen_and_the_page_is_as_wide_as_the_screen(page, file, width) -> None:
    page.open(file, width=width)
    page.ask("document.querySelectorAll('details').forEach(each => each.open = true)")
    boxes = page.boxes("figure svg")
    assert len(boxes) >= 4
    assert all(100 < across <= width and down > 50 for across, down in boxes)
    assert page.ask("document.documentElement.scrollWidth") == width


def test_the_verdict_of_each_change_is_in_sight_on_a_phone(page, file) -> None:
    page.open(file, width=PHONE)
    rows = page.ask(
        "[...document.querySelectorAll('td > .verdict')].map(e => e.getBoundingClientRect().right)"
    )
    assert rows
    assert max(rows) <= PHONE


def test_the_report_is_read_with_the_keyboard_alone(page, file) -> None:
    page.open(file)
    page.ask("document.querySelectorAll('details').forEach(each => each.open = false)")
    reached = []
    for _ in range(60):
        page.press(Keys.TAB)
        name = page.ask("document.activeElement.tagName")
        if name == "BODY":
            break
        reached.append(name)
        seen = page.ask("getComputedStyle(document.activeElement).outlineStyle")
        assert seen != "none", name
    assert {"A", "SUMMARY"} <= set(reached)
    page.ask("document.querySelector('summary').focus()")
    page.press(Keys.ENTER)
    assert page.ask("document.querySelector('details').open")


def test_a_link_to_a_change_opens_what_it_leads_to(page, file) -> None:
    page.open(file)
    page.ask("document.querySelectorAll('details').forEach(each => each.open = false)")
    page.ask("document.querySelector('a[href^=\"#i\"]').focus()")
    page.press(Keys.ENTER)
    assert page.ask("document.querySelector(location.hash).closest('details').open")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_stands_out_from_its_ground(page, file, dark) -> None:
    page.open(file, dark=dark)
    for selector in ("body", ".note", "th", "a", ".accepted", ".rejected", ".inconclusive"):
        colours = page.ask(
            "[getComputedStyle(document.querySelector(arguments[0])).color,"
            " getComputedStyle(document.body).backgroundColor]",
            selector,
        )
        assert _contrast(*colours) >= 4.5, selector  # WCAG 2.2, 1.4.3 (AA)
    assert page.ask("matchMedia('(prefers-color-scheme: dark)').matches") is dark


def test_an_empty_run_has_a_report_too(page, tmp_path) -> None:
    path = tmp_path / "report.html"
    path.write_text(report.render(empty_report()), encoding="utf-8")
    page.open(path, width=PHONE)
    assert page.ask("document.querySelector('h1').textContent")
    assert page.console() == []


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_stories_of_agents_fit_the_screen_and_ask_for_nothing(page, told, width) -> None:
    page.open(told, width=width)
    page.ask("document.querySelectorAll('details').forEach(each => each.open = true)")
    boxes = page.boxes(".story > li")
    assert len(boxes) == 8 + 3
    assert all(100 < across <= width and down > 20 for across, down in boxes)
    assert page.ask("document.documentElement.scrollWidth") == width
    assert page.requests() == [told.as_uri()]
    assert page.console() == []


def test_the_keyboard_reaches_a_story_and_its_transcripts(page, told) -> None:
    page.open(told)
    page.ask("document.querySelectorAll('details').forEach(each => each.open = false)")
    page.ask("document.querySelector('a[href^=\"#w\"]').focus()")
    page.press(Keys.ENTER)
    assert page.ask("document.querySelector(location.hash).closest('details').open")
    reached = []
    for _ in range(20):
        page.press(Keys.TAB)
        reached.append(page.ask("document.activeElement.getAttribute('href')"))
        seen = page.ask("getComputedStyle(document.activeElement).outlineStyle")
        assert seen != "none", reached
        if reached[-1] == "transcripts/005-performance%20evaluator.jsonl":
            break
    assert "transcripts/001-planner.jsonl" in reached
    assert reached[-1] == "transcripts/005-performance%20evaluator.jsonl"


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_words_of_agents_stand_out_from_their_ground(page, told, dark) -> None:
    page.open(told, dark=dark)
    for selector in ("blockquote", ".story .note", ".story a", ".story .accepted", ".facts dt"):
        colours = page.ask(
            "[getComputedStyle(document.querySelector(arguments[0])).color,"
            " getComputedStyle(document.body).backgroundColor]",
            selector,
        )
        assert _contrast(*colours) >= 4.5, selector


def _contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two CSS colours, as WCAG 2.2 defines it."""
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [float(part) / 255 for part in colour.strip("rgba()").split(",")[:3]]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

"""Pull request, comment and report show the same evidence in the same words and numbers."""

import re

import pytest
from hypothesis import example, given

from bot.render import as_markdown, comment, judgement, measured, pull_request, report, surroundings
from bot.render.content import (
    Column,
    Facts,
    Line,
    Table,
    code,
    left,
    right,
    row,
    strong,
    theirs,
    words,
)
from layers.evidence import RunReport
from tests.property.test_markdown_properties import HOSTILE
from tests.render_fixture import accepted_iteration, evidence, run_report
from tests.rendered_tables import Shown, of_html, of_markdown
from tests.unit.test_judge_rendering import accepted as judged
from tests.unit.test_render_jobs import OCCASION

TRIED = ("#", "verdict", "change", "why", "layer", "class", "share", "expected", "took")
RESOLUTION = ["gain, 1 - 1/ratio", "launches", "time"]  # of a judgement alone


def page(run: RunReport | None = None) -> Shown:
    return of_html(report.render(run or run_report(), {1: evidence().blocks}))


def heads(shown: Shown) -> list[list[str]]:
    return [[cell.text for cell in table[0]] for table in shown.tables]


def plain(line: Line) -> str:
    return "".join(span.text for span in line)


def test_every_table_of_a_pull_request_is_in_the_report_cell_by_cell():
    body, shown = of_markdown(pull_request.render(evidence())), page()
    assert len(body.tables) == 12
    for table in body.tables:
        if [cell.text for cell in table[0]] != list(TRIED):
            assert table in shown.tables


def test_what_else_a_run_tried_stands_in_the_same_rows_of_both():
    body = of_markdown(pull_request.render(evidence())).table(*TRIED)
    assert body == [each for each in page().table(*TRIED) if each[0].text != "1"]


@pytest.mark.parametrize("of_comment", [False, True], ids=["judgement", "comment"])
def test_every_table_of_a_judgement_is_in_the_report_of_the_same_evidence(of_comment):
    whole = comment.report(judged(), OCCASION) if of_comment else judgement.body(judged())
    body = of_markdown(whole)
    alone = run_report().model_copy(update={"on_top": []})  # a judgement stands by itself
    shown = page(alone)
    assert heads(body).count(RESOLUTION) == 1
    assert len(body.tables) == 9
    for table in body.tables:
        assert table in shown.tables or [cell.text for cell in table[0]] == RESOLUTION


def test_the_paragraphs_around_the_tables_are_the_same_in_both():
    whole, iteration = evidence(), accepted_iteration()
    body, shown = of_markdown(pull_request.render(whole)), page()
    tables = (
        measured.equivalence(iteration),
        measured.gain(iteration, whole.noise),
        measured.looks(iteration),
        measured.load_test(iteration),
        surroundings.tried(whole.others),
    )
    lines = [line for table in tables for line in (table.before, table.note) if line]
    lines += [*measured.places(iteration), measured.expected(iteration.hypothesis)]
    assert len(lines) == 10
    for line in lines:
        assert plain(line) in body.paragraphs
        assert plain(line) in shown.paragraphs
    mean = plain(measured.looks_mean(measured.RUN_RATE))
    assert [each.paragraphs.count(mean) for each in (body, shown)] == [1, 1]


def test_machine_versions_and_traffic_are_the_same_facts_in_both():
    body, shown = of_markdown(pull_request.render(evidence())).items, page().items
    facts = [f"{name}: {plain(line)}" for name, line in known()]
    assert len(facts) == 7
    assert [item for item in body if item in facts] == facts
    assert [item for item in shown if item in facts] == facts


def known() -> Facts:
    whole = evidence()
    return surroundings.facts(whole.environment, whole.stack, whole.seed, whole.run_id)


def test_a_judgement_says_where_it_was_measured_in_the_same_facts():
    items = of_markdown(judgement.body(judged())).items
    facts = [f"{n}: {plain(line)}" for n, line in known() if n != "run"]
    assert [item for item in items if item in facts] == facts
    assert "run: seed 7" in items


def written(table: Table) -> tuple[Shown, Shown]:
    template = report._environment().get_template("content.html.j2")
    return of_markdown(as_markdown.table(table)), of_html(str(template.module.table(table)))


def bare(text: str) -> str:
    # In code a parser may take a backslash before a pipe for the escape of it.
    return re.sub(r"\\+(?=\|)", "", text)


@given(HOSTILE, HOSTILE)
@example("a\\\\|b", "`|`")
@example("<script>alert(1)</script>", "{{ 7 * 7 }}")
@example('"><img src=x onerror=y>', "</td></tr></table>")
def test_any_text_reads_the_same_in_both_and_opens_nothing(first, second):
    table = Table(
        "any",
        (*left("kind"), Column("text", "title"), Column("both", "why"), *right("n")),
        (row(words("x"), theirs(first), (code(second), words(" "), theirs(first)), words("1")),),
        before=(words("Before: "), theirs(second), words(".")),
        note=(strong("Void:"), words(" "), code(first), words(".")),
    )
    for shown in written(table):
        ((head, cells),) = shown.tables
        assert [cell.text for cell in head] == ["kind", "text", "both", "n"]
        assert [cell.right for cell in (*head, *cells)] == [False, False, False, True] * 2
        assert [bare(c.text) for c in cells] == [
            bare(plain(cell).strip()) for cell in table.rows[0]
        ]
        assert [bare(p) for p in shown.paragraphs] == [
            bare(plain(line)) for line in (table.before, table.note)
        ]


def test_a_table_without_rows_is_shown_by_neither():
    empty = Table("none", left("a"), (), before=(words("b"),), note=(words("c"),))
    for shown in written(empty):
        assert shown == Shown()
    assert as_markdown.folded(empty) == ""


def test_the_report_says_where_it_leaves_blocks_out():
    many = evidence().blocks * 20
    shown = report.render(run_report(), {1: many})
    assert "<summary>The first 400 of 480 blocks</summary>" in shown
    assert "Every block" not in shown


def test_a_gain_that_was_not_confirmed_is_no_figure():
    part = accepted_iteration().model_copy(update={"end_to_end": None, "load_test": None})
    shown = report.render(run_report().model_copy(update={"iterations": [part], "total": None}))
    assert "figures" not in shown.partition("</style>")[2]
    assert "only the part: CPU per request of the features process" in shown

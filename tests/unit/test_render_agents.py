"""How agents wrote candidates: one story in body, report and terminal; their words are data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from rich.console import Console

from bot import results
from bot.render import agents, as_markdown, plots, pull_request, report, surroundings, terminal
from bot.render import body as body_parts
from bot.render.content import Chapter, plain, strong
from layers.base import Sign
from layers.evidence import EvidenceFile, RunReport
from layers.story import Cost, Outcome, Story, Suspicion
from tests import canaries
from tests.agents_fixture import (
    agents_evidence,
    agents_report,
    contract,
    story,
    unwritten_story,
    written_iteration,
)
from tests.github_markdown import BLOCKS, PLAIN, blocks, parts, references, spans
from tests.golden_files import assert_golden
from tests.property.test_markdown_properties import HOSTILE
from tests.render_fixture import accepted_iteration, evidence, run_report
from tests.rendered_tables import of_html, of_markdown
from tests.unit.test_render_hostile import ATTACKS, SECRET, frame, hostile, tags_of
from tests.unit.test_render_report import Page

FILES = {"run": Path("run.json"), "report": Path("report.html")}
SIGNS = ("sign", "model", "looked for", "seen", "detail")
SEEN = ("", "where", "what", "why")


def page(run: RunReport | None = None) -> str:
    return report.render(run or agents_report())


def between(text: str, start: str, end: str) -> str:
    """Return the part of a text from `start` to before the next `end`."""
    begin = text.index(start)
    return text[begin : text.index(end, begin)]


def with_story(**fields: object) -> EvidenceFile:
    whole = agents_evidence()
    told = story().model_copy(update=fields)
    return whole.model_copy(
        update={"iteration": whole.iteration.model_copy(update={"story": told})}
    )


def shown(run: RunReport) -> str:
    """Return what a terminal shows of a run, with its lines joined."""
    console = Console(width=120, color_system=None, force_terminal=False)
    with console.capture() as captured:
        console.print(terminal.run(run, FILES))
    return " ".join(captured.get().replace("\u00a0", " ").split())


# What is told


def test_a_body_tells_how_an_agent_wrote_it():
    body = pull_request.render(agents_evidence())
    part = between(body, "## How it was written", "## How much faster")
    assert_golden("agents_body.md", part.rstrip() + "\n")


def test_a_report_tells_what_agents_did_and_how_each_change_was_written():
    whole = page()
    run = between(whole, "<h2>What agents did</h2>", "</section>")
    assert_golden("agents_report.html", run + between(whole, '<div id="w2">', "<details>"))


def test_a_run_without_agents_says_nothing_of_any():
    assert agents.of_run(run_report()) is None
    assert agents.of_iteration(accepted_iteration()) is None
    for text in (report.render(run_report()), pull_request.render(evidence())):
        assert "agent" not in text
        assert "How it was written" not in text
    assert "anthropic" not in shown(run_report())


def test_a_story_is_told_in_the_order_of_its_steps_with_the_trial_before_the_evaluator():
    written = agents.of_iteration(written_iteration())
    assert written is not None
    assert [plain(chapter.head).partition(":")[0] for chapter in written.chapters] == [
        "planner",
        "round 1, implementer",
        "round 1, public checks",
        "round 2, implementer",
        "round 2, public checks",
        "round 2, accuracy judge",
        "trial, by the framework",
        "performance evaluator",
    ]


def test_a_story_that_no_evaluator_read_ends_with_the_trial():
    iteration = written_iteration()
    told = story().model_copy(update={"steps": story().steps[:-1]})
    written = agents.of_iteration(iteration.model_copy(update={"story": told}))
    assert written is not None
    assert plain(written.chapters[-1].head).startswith("trial, by the framework: accepted")


def test_a_story_without_a_candidate_has_no_trial_and_no_signs():
    written = agents.of_story(unwritten_story())
    assert not any("trial" in plain(chapter.head) for chapter in written.chapters)
    assert written.signs.rows == ()


def test_a_contract_is_shown_where_its_story_is_lost():
    iteration = written_iteration().model_copy(update={"story": None})
    written = agents.of_iteration(iteration)
    assert written is not None
    assert written.chapters == ()
    assert [name for name, _ in written.facts] == [
        "proposer",
        "claim",
        "expected",
        "falsifier",
        "skill",
    ]
    run = agents_report().model_copy(update={"iterations": [iteration], "agents": None})
    assert '<div id="w2">' in page(run)
    assert "What agents did" not in page(run)


def test_every_outcome_and_every_sign_has_words():
    assert set(agents.OUTCOMES) == set(Outcome)
    assert set(agents.SIGNS) == set(Sign)


@pytest.mark.parametrize(("seen", "said"), [(True, "yes"), (False, "no"), (None, "not looked for")])
def test_a_sign_says_whether_it_was_seen(seen, said):
    first, *rest = contract().activation
    claimed = contract().model_copy(
        update={"activation": [first.model_copy(update={"seen": seen}), *rest]}
    )
    iteration = written_iteration()
    hypothesis = iteration.hypothesis.model_copy(update={"contract": claimed})
    written = agents.of_iteration(iteration.model_copy(update={"hypothesis": hypothesis}))
    assert written is not None
    assert plain(written.signs.rows[0][3]) == said


def test_a_sign_that_was_missing_shows_what_was_looked_for():
    ((_, cells),) = [
        table for table in of_html(page()).tables if [c.text for c in table[-1]][:1] == ["served"]
    ]
    assert [cell.text for cell in cells] == [
        "served",
        "features",
        "dynamic_batching.max_queue_delay_microseconds = 500",
        "no",
        "the server reports 2000",
    ]


# Numbers


def test_what_stories_cost_adds_up_to_what_proposers_cost():
    run = agents_report()
    assert run.agents is not None
    told = [each.story for each in run.iterations if each.story] + run.agents.without_candidate
    paid = {one.proposer: one.cost for one in run.agents.yields}
    asked = paid["anthropic"]
    assert asked is not None
    whole = sum((agents.total(one) for one in told if one.proposer == "anthropic"), Cost(usd=0.0))
    assert (whole.calls, whole.tokens) == (asked.calls, asked.tokens)
    assert whole.usd == pytest.approx(asked.usd)
    assert whole.wall_s == pytest.approx(asked.wall_s)


@pytest.mark.parametrize(
    ("paid", "said"),
    [
        (Cost(), ""),
        (Cost(wall_s=61.0), "1\u00a0min 01\u00a0s"),
        (Cost(calls=1, input_tokens=7), "1 call, 7 tokens, no price given"),
        (Cost(calls=2, output_tokens=1_200, usd=0), "2 calls, 1,200 tokens, 0.00\u00a0USD"),
        (Cost(calls=2, usd=0.00421), "2 calls, 0 tokens, 0.0042\u00a0USD"),
        (Cost(calls=3, usd=1234.5, wall_s=2), "3 calls, 0 tokens, 1,234.50\u00a0USD, 2\u00a0s"),
    ],
)
def test_a_cost_is_said_as_far_as_it_is_known(paid, said):
    assert agents.spent(paid) == said


def test_a_step_that_asked_no_model_leaves_the_money_known():
    assert agents.total(story()).usd == pytest.approx(0.36)
    unpriced = story().steps[0].model_copy(update={"cost": Cost(calls=1)})
    told = story().model_copy(update={"steps": [*story().steps, unpriced]})
    assert agents.total(told).usd is None


# One content, two back ends


def test_the_tables_of_a_body_are_in_the_report_cell_by_cell():
    body, seen = of_markdown(pull_request.render(agents_evidence())), of_html(page())
    for head in (SIGNS, SEEN):
        assert body.table(*head) in seen.tables


def test_facts_and_paragraphs_are_the_same_in_both():
    body, seen = of_markdown(pull_request.render(agents_evidence())), of_html(page())
    written = agents.of_iteration(written_iteration())
    assert written is not None
    facts = [f"{name}: {plain(line)}" for name, line in written.facts]
    assert [item for item in body.items if item in facts] == facts
    assert [item for item in seen.items if item in facts] == facts
    for line in (written.signs.before, written.signs.note, written.seen.note):
        assert plain(line) in body.paragraphs
        assert plain(line) in seen.paragraphs


def test_who_wrote_a_change_is_a_column_where_it_was_not_the_cookbook_alone():
    table = surroundings.tried(agents_report().iterations)
    assert table.head[-1].name == "by"
    assert [plain(row[-1]) for row in table.rows] == ["cookbook", "anthropic", "command"]
    assert "By: the proposer" in plain(table.note)
    assert surroundings.tried(run_report().iterations).head[-1].name == "took"


def test_the_summary_of_a_body_says_who_wrote_it():
    said = "Written by `anthropic`, no rule of a card. It measured and decided nothing"
    assert said in pull_request.render(agents_evidence()).partition("## ")[0]
    assert "Written by" not in pull_request.render(evidence())


def test_tags_of_the_page_nest():
    assert Page(page()).open == []


def test_links_of_the_page_lead_to_stories_and_transcripts_alone():
    whole = page()
    tags, ids = tags_of(whole), set(re.findall(r' id="([^"]+)"', whole))
    inside = [target for target in tags.targets if target.startswith("#")]
    beside = [target for target in tags.targets if not target.startswith("#")]
    assert {"#w2", "#w3"} <= set(inside) <= {f"#{name}" for name in ids}
    assert len(beside) == 7
    assert all(re.fullmatch(r"transcripts/00\d-[a-z%0-9]+\.jsonl", one) for one in beside)


@pytest.mark.parametrize(
    "name",
    [
        "https://example.org/transcripts/001-planner.jsonl",
        "transcripts/../../etc/passwd.jsonl",
        "transcripts/001-planner.html",
        "javascript:alert(1)//transcripts/001.jsonl",
        "transcripts/001-planner.jsonl\n",
    ],
)
def test_no_other_file_than_a_transcript_is_linked(name):
    step = story().steps[0].model_copy(update={"transcript": name})
    chapter = agents.of_story(story().model_copy(update={"steps": [step]})).chapters[0]
    assert all(span.link == "" for span in chapter.note)
    assert any(span.text.startswith(name.split()[0]) for span in chapter.note)


def test_a_terminal_has_one_line_a_story_and_the_yields():
    text = shown(agents_report())
    assert (
        "anthropic: Keep each row a list, issue join-then-split: candidate 2 after 2 rounds, accepted "
        "gain_above_noise; 12 calls, 123,600 tokens, 0.36 USD, 4 min 03 s" in text
    )
    assert (
        "anthropic: Read the vocabulary once, issue read-vocabulary-once: no candidate after 1 "
        "round: accuracy judge, rejected it answers_from_memory; 4 calls" in text
    )
    assert "Why no agent was asked further: two stories in a row without a candidate" in text
    assert "anthropic 1 1 0 0 0 1 159,500 0.50 USD 7 min 39 s 1.00" in text
    assert "cookbook 1 1 0 0 0 0 \u2013 \u2013 2 min 43 s 1.00" in text
    assert "command 1 0 1 0 0 0 \u2013 \u2013 2 min 03 s \u2013" in text


# Sizes


def test_a_long_story_is_the_third_that_a_body_sheds():
    step = story().steps[1].model_copy(update={"text": "word " * 700})
    whole = with_story(steps=[step] * 400)
    body = pull_request.render(whole)
    assert len(body) <= body_parts.LIMIT
    assert "Left out for its size: blocks, pairs, story." in body
    assert "## How it was written" in body
    assert "- claim: Every row is joined" in body


def test_the_longest_story_of_a_run_stands_in_a_body_whole():
    steps = [step.model_copy(update={"text": "w" * 4000}) for step in story().steps]
    body = pull_request.render(with_story(steps=[*steps[:1], *steps[1:3] * 10, *steps[5:]]))
    assert "Left out for its size" not in body
    assert "<summary>Step by step (24)</summary>" in body


def test_claims_are_cut_and_the_rest_of_many_findings_is_counted():
    long = contract().model_copy(update={"claim": "c " * 2000, "falsifier": "f" * 4000})
    found = [Suspicion(place=f"f.py:{n}", kind="instruction", excerpt="obey") for n in range(60)]
    whole = with_story(suspicions=found)
    hypothesis = whole.iteration.hypothesis.model_copy(update={"contract": long})
    iteration = whole.iteration.model_copy(update={"hypothesis": hypothesis})
    body = pull_request.render(whole.model_copy(update={"iteration": iteration}))
    assert "<summary>What was seen and refused (61)</summary>" in body
    assert "21 more are in the data." in body
    assert max(map(len, body.split("\n"))) < 2000


def test_a_cut_text_ends_in_an_ellipsis_and_keeps_its_lines():
    step = story().steps[0].model_copy(update={"text": "one\n\n" + "two " * 900})
    (chapter,) = agents.of_story(story().model_copy(update={"steps": [step]})).chapters
    assert chapter.quoted.startswith("one\n\ntwo two")
    assert len(chapter.quoted) <= agents.MOST_TOLD
    assert chapter.quoted.endswith("\u2026")


def test_a_long_backlog_says_how_much_is_left_out():
    run = agents_report()
    assert run.agents is not None
    many = run.agents.model_copy(update={"backlog": [f"issue-{n}: open" for n in range(70)]})
    work = agents.of_run(run.model_copy(update={"agents": many}))
    assert work is not None
    assert len(work.backlog) == 61
    assert plain(work.backlog[-1]) == "and 10 more"


# Hostile texts


@pytest.mark.parametrize("text", ATTACKS)
def test_a_body_of_hostile_stories_has_the_frame_of_any_other(text):
    whole = agents_evidence()
    body = pull_request.render(hostile(whole, text))
    assert frame(body) == frame(pull_request.render(hostile(whole, "x")))
    assert references(body) == set()
    assert SECRET not in body
    assert not re.search(r"<!--\s*fvec:", body)
    for table in re.findall(r"(?:^\|.*\|\n)+", body, flags=re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}) == 1


@pytest.mark.parametrize("text", ATTACKS)
def test_a_report_of_hostile_stories_has_no_element_of_theirs(text):
    run = hostile(agents_report(), text)
    html = report.render(run, {}, plots.of_run(run, {}))
    read = tags_of(html)
    assert not set(read.tags) & {"script", "img", "iframe", "link", "form", "object"}
    assert all(target.startswith("#") for target in read.targets)
    assert SECRET not in html


@pytest.mark.parametrize("text", ATTACKS)
def test_a_terminal_shows_hostile_stories_as_text(text):
    seen = shown(hostile(agents_report(), text))
    assert SECRET not in seen
    assert "\x1b" not in seen


def test_the_attack_reaches_every_text_of_a_story():
    document = hostile(agents_report(), "attack").model_dump(mode="json", by_alias=True)
    assert str(document["agents"]).count("attack") > 15
    assert str(document["iterations"][1]["story"]).count("attack") > 20
    assert str(document["iterations"][1]["hypothesis"]["contract"]).count("attack") > 6


@given(HOSTILE, HOSTILE)
def test_what_an_author_said_is_one_item_of_text_whatever_it_is(said, other):
    chapters = (Chapter((strong("planner"),), said), Chapter((strong("judge"),), other))
    written = as_markdown.story(chapters, 240)
    assert blocks(written) <= BLOCKS
    assert spans(written) <= PLAIN - {"softbreak"} | {"strong_open", "strong_close"}
    assert references(written) == set()
    assert len([token for token in parts(written) if token.type == "list_item_open"]) == 2


def test_page_and_data_of_a_run_hold_no_secret_that_a_model_repeated(tmp_path):
    token = canaries.tokens()["anthropic"]
    step = story().steps[0].model_copy(update={"text": f"I found {token} in the logs"})
    told = Story(proposer="anthropic", issue=token, title=token, steps=[step])
    iteration = written_iteration().model_copy(update={"story": told})
    run = agents_report().model_copy(update={"iterations": [iteration]})
    files = results.write(tmp_path, run)
    for file in files.values():
        assert token not in file.read_text()
        assert "REDACTED" in file.read_text()
    assert RunReport.model_validate_json(files["run"].read_bytes()).agents == run.agents

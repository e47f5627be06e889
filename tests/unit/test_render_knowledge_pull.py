"""The pull request of knowledge, rendered: what is in it, what is cut, and what cannot get out."""

from __future__ import annotations

from datetime import date

from bot.render.body import LIMIT
from bot.render.knowledge_pull import (
    LONGEST_SIDE,
    MOST_FINDINGS,
    Conflict,
    Learned,
    headline,
    render,
)
from knowledge.cards import Finding

HOSTILE = "@maintainer fixes #1 <!-- fvec:pull --> </details> ![x](https://example.com/x.png) | `"


def finding(**changes: object) -> Finding:
    values: dict[str, object] = {
        "date": date(2026, 1, 2),
        "stack": "ads",
        "commit": "a" * 40,
        "model": "ranker",
        "verdict": "accepted",
        "reason": "gain_confirmed",
        "gain": 1.41,
        "ci": (1.36, 1.46),
        "hardware": "two cores",
        "run": "0123456789ab",
    }
    return Finding.model_validate(values | changes)


def conflict(**changes: object) -> Conflict:
    values = {
        "card": "queue-delay",
        "path": "knowledge/cookbook/config/queue-delay-0123456789ab.yaml.unmerged",
        "reason": "its file was deleted, or given another id",
        "ours": "id: queue-delay\nfindings: []\n",
        "theirs": None,
    }
    return Conflict(**(values | changes))


def test_every_finding_is_a_row_with_what_it_rests_on():
    refuted = finding(verdict="rejected", reason="below_floor", gain=None, ci=None)
    body = render([Learned("lookups-one-pass", (finding(), refuted))], [], [], owner="the ads team")
    rows = [line for line in body.splitlines() if line.startswith("| `lookups-one-pass`")]
    assert rows == [
        "| `lookups-one-pass` | `ranker` | accepted | 1.41\N{MULTIPLICATION SIGN} (1.36 to 1.46) "
        "| `gain_confirmed` | ads at `aaaaaaaaaa`, 2026-01-02 | `0123456789ab` |",
        "| `lookups-one-pass` | `ranker` | rejected | \N{EN DASH} "
        "| `below_floor` | ads at `aaaaaaaaaa`, 2026-01-02 | `0123456789ab` |",
    ]
    assert "the ads team answers for it." in body
    assert "## Left to a person" not in body
    assert "## Cards that the last run could not read" not in body


def test_both_sides_of_a_conflict_are_shown_whole():
    theirs = "id: queue-delay\ntitle: [\n"
    body = render([], [conflict(theirs=theirs)], ["a card: is no card"], owner=None)
    assert "**`queue-delay`**: its file was deleted, or given another id" in body
    assert "<code>knowledge/cookbook/config/queue-delay-0123456789ab.yaml.unmerged</code>" in body
    assert "```yaml\nid: queue-delay\nfindings: []\n```" in body
    assert "```yaml\nid: queue-delay\ntitle: [\n```" in body
    assert "No owner is named." in body
    assert "- a card: is no card" in body


def test_a_card_without_a_file_is_said_to_have_none():
    assert "Theirs: there is no file with this card." in render([], [conflict()], [], owner=None)


def test_long_sides_and_long_lists_are_cut_and_say_so():
    long = "x" * (LONGEST_SIDE + 1)
    body = render([], [conflict(ours=long, theirs=long)], [], owner=None)
    assert body.count("1 more character in the file.") == 2
    many = tuple(finding(commit=f"{n:040x}") for n in range(MOST_FINDINGS + 1))
    body = render([Learned("queue-delay", many)], [], [], owner=None)
    assert body.count("| `queue-delay` |") == MOST_FINDINGS
    assert "and 1 more finding." in body


def test_a_body_is_never_longer_than_github_takes():
    many = tuple(finding(commit=f"{n:040x}", reason=HOSTILE * 3) for n in range(300))
    sides = [
        conflict(path=f"knowledge/{n}", ours="`" * 9000, theirs="&" * 9000) for n in range(300)
    ]
    body = render([Learned("queue-delay", many)], sides, [HOSTILE * 9] * 300, owner=HOSTILE)
    assert len(body) <= LIMIT
    assert "Left out for its size: findings" in body


def test_nothing_of_a_card_gets_out_of_its_place():
    hostile = finding(model=HOSTILE, reason=HOSTILE, stack=HOSTILE, run=HOSTILE)
    odd = conflict(
        card=HOSTILE,
        path=HOSTILE,
        reason=HOSTILE,
        ours=f"{HOSTILE}\n```\n{HOSTILE}",
        theirs=HOSTILE,
    )
    body = render([Learned(HOSTILE, (hostile,))], [odd], [HOSTILE], owner=HOSTILE)
    outside = _outside_code(body)
    for words in ("@maintainer", "#1", "<!--", "![x]", "https://example.com"):
        assert words not in outside
    assert outside.count("</details>") == outside.count("<details>") == 2
    assert "<!-- fvec:" not in body


def _outside_code(body: str) -> str:
    """The lines of a body without fenced blocks, code spans and <code> elements."""
    kept, fence = [], ""
    for line in body.split("\n"):
        ticks = line[: len(line) - len(line.lstrip("`"))]
        if fence:
            fence = "" if line == fence else fence
        elif len(ticks) >= 3:
            fence = ticks
        else:
            kept.append(_without_spans(line))
    return "\n".join(kept)


def _without_spans(line: str) -> str:
    while "<code>" in line:
        head, _, rest = line.partition("<code>")
        line = head + rest.partition("</code>")[2]
    parts, position = [], 0
    while (start := line.find("`", position)) >= 0:
        ticks = line[start : len(line) - len(line[start:].lstrip("`"))]
        end = line.find(ticks, start + len(ticks))
        if line[start - 1 : start] == "\\" or end < 0:
            parts.append(line[position : start + 1])
            position = start + 1
            continue
        parts.append(line[position:start])
        position = end + len(ticks)
    return "".join([*parts, line[position:]])


def test_the_title_counts_what_is_in_it():
    learned = [Learned("a", (finding(),)), Learned("b", (finding(), finding()))]
    assert headline(learned, []) == "knowledge: 3 findings on 2 cards"
    assert (
        headline(learned[:1], [conflict()]) == "knowledge: 1 finding on 1 card, 1 left to a person"
    )
    assert headline([], []) == "knowledge: 0 findings on 0 cards"

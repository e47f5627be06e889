"""What a reviewer of the cards reads: one block per card, and the same as data."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from bot import cli
from bot.render import knowledge as render
from knowledge.cards import CookbookCard, Finding
from knowledge.overview import Overview, overviews
from knowledge.refine import condensed
from knowledge.yamlfile import loads
from tests.unit.test_knowledge_refine import BLOCK, HEAD, TODAY, finding

CARD = loads(HEAD, Path("c.yaml"), CookbookCard)
OTHER = "one-pass on features"
PLACE = {"hardware": "two cores", "versions": {"triton": "2.51.0"}, "workload": "w1"}


def made(verdict: str, days_ago: int = 0, **changes: object) -> Finding:
    when = TODAY - timedelta(days=days_ago)
    return finding(**(PLACE | {"verdict": verdict, "date": when, "model": "features"} | changes))


def overview(*findings: Finding) -> Overview:
    (told,) = overviews([CARD.model_copy(update={"findings": list(findings)})], TODAY)
    return told


def states(told: Overview) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(known.standing.state.value, known.model, known.on_top) for known in told.known]


def shown(*told: Overview, whole: bool = False) -> str:
    """The text of the blocks, with plain spaces and an x for times."""
    console = Console(width=100, file=io.StringIO())
    console.print(render.blocks(told, [], whole=whole))
    text = console.file.getvalue()
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{MULTIPLICATION SIGN}", "x")


def test_each_model_and_setting_has_a_state_of_its_own() -> None:
    told = overview(
        made("rejected", 2, on_top=[OTHER]),
        made("accepted", 3),
        made("inconclusive", 4, model="ranker", reason="last_look_reached"),
        made("rejected", 100, model="encoder"),
        made("accepted", 1, together=[OTHER, "a-card on features"]),
    )
    assert states(told) == [
        ("refuted", "features", (OTHER,)),
        ("accepted", "features", ()),
        ("resting", "ranker", ()),
        ("stale", "encoder", ()),
    ]
    assert [f.date for f in told.together] == [TODAY - timedelta(days=1)]


def test_what_counts_as_the_ground_is_the_newest_finding_of_the_stack_in_any_card() -> None:
    old = CARD.model_copy(update={"findings": [made("rejected", 5)]})
    moved = made("accepted", 1, versions={"triton": "2.62.0"})
    new = CARD.model_copy(update={"id": "other", "findings": [moved]})
    (told, _) = overviews([old, new], TODAY)
    assert told.known[0].standing.why == (
        "rejected on 2026-11-24 at abc (gain_above_floor), but that is stale: "
        "triton 2.51.0 then, 2.62.0 now"
    )
    (alone,) = overviews([old], TODAY)
    assert states(alone) == [("refuted", "features", ())]


def test_a_block_says_what_holds_with_numbers_and_ground() -> None:
    gained = {"gain": 1.25, "ci": (1.2, 1.3), "share": 0.5}
    text = shown(overview(made("accepted", 1, **gained), made("rejected", 2, model="ranker")))
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[:6] == [
        "a-card  server, exact",
        "single quoted",
        "  when     folded text",
        "  do       # not a comment - not a finding",
        "  gain     50.0 % of what it touches, at best 90.0 %, says the card",
        "  current  features of ads: accepted on 2026-11-28 at abc (gain_above_floor)",
    ]
    assert lines[6].startswith("           1.25x (1.20 to 1.30), at 50.0 % of the time; 40.7 % to")
    assert "two cores; triton 2.51.0; traffic w1" in " ".join(" ".join(lines).split())
    assert "  refuted  ranker of ads: rejected on 2026-11-27" in text
    assert " ".join(text.split()).endswith("to be tried again")


def test_what_was_dropped_is_told_with_counts_best_and_last() -> None:
    card = CARD
    for day in range(20, 0, -1):
        gained = {"gain": 1 + day / 100, "ci": (1.0, 2.0), "share": 0.5}
        verdict = "accepted" if day % 2 else "rejected"
        card = condensed(card, [made(verdict, day, commit=str(day), run=str(day), **gained)])
    (told,) = overviews([card], TODAY)
    text = " ".join(shown(told).split())
    assert (
        "earlier 8 more since 2026-11-09: 4 accepted, 4 rejected; best 1.19x (1.00 to 2.00), at "
        "50.0 % of the time, ads, 2026-11-10; last accepted on 2026-11-16, ads (gain_above_floor)"
    ) in text


def test_text_of_a_card_reaches_the_terminal_as_text() -> None:
    evil = made("rejected", reason="[red]x[/]\x1b[31m\u202e", stack="[bold]", hardware="\x07")
    text = shown(overview(evil), whole=True)
    assert "[bold]: rejected" in text
    assert "[red]x[/][31m" in text
    assert not {"\x1b", "\u202e", "\x07"} & set(text)


def call(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> tuple[int, str, str]:
    code = cli.main(["knowledge", "show", *map(str, argv)])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def own(tmp_path: Path) -> Path:
    place = tmp_path / "cards/cookbook/server/a-card.yaml"
    place.parent.mkdir(parents=True)
    place.write_text(HEAD + BLOCK)
    return tmp_path / "cards"


def test_cards_are_shown_by_layer_or_id_with_the_repositorys_own(capsys, own) -> None:
    code, out, _ = call(capsys, "--layer", "server", "--dir", own)
    assert code == 0
    heads = [
        line for line in out.splitlines() if line and not line.startswith((" ", "current", "open"))
    ]
    assert heads[0] == "a-card  server, exact"
    assert "native-string-tensors  server, exact" in heads
    assert not any("config" in head for head in heads)
    code, out, _ = call(capsys, "a-card", "--dir", own)
    assert code == 0
    assert "  source   indented by four (https://example.com/a)" in out


def test_data_of_a_card_holds_its_states(capsys, own) -> None:
    code, out, _ = call(capsys, "a-card", "--dir", own, "--json")
    told = json.loads(out)
    assert (code, told["id"], told["schema"]) == (0, "a-card", "fvec.card/1")
    assert [known["stack"] for known in told["overview"]["known"]] == ["ads", "search"]
    listed = json.loads(call(capsys, "--dir", own, "--layer", "server", "--json")[1])
    assert listed["schema"] == "fvec.knowledge/1"
    (mine,) = [card for card in listed["cards"] if card["id"] == "a-card"]
    assert (mine["about"], mine["findings"]) == ("server", 2)
    assert mine["known"] == told["overview"]["known"]


def test_a_card_of_another_layer_is_not_there(capsys, own) -> None:
    code, _, err = call(capsys, "a-card", "--dir", own, "--layer", "config")
    assert code == 3
    assert "there is no card 'a-card' of layer config" in err


def test_a_half_written_card_is_an_error_with_its_place(capsys, own) -> None:
    place = own / "cookbook/server/a-card.yaml"
    place.write_text((HEAD + BLOCK)[: len(HEAD) + 60])
    code, out, err = call(capsys, "--dir", own)
    assert (code, out) == (3, "")
    assert f"{place}:" in err

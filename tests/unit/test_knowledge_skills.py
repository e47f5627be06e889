"""Skills as cards: what ships, what is checked, what is shown, and findings within the size."""

from __future__ import annotations

import io
import json
from collections import Counter
from datetime import date, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from bot import cli
from bot.render import knowledge as render
from knowledge.cards import MAX_SKILL_BYTES, TRIED, Finding, SkillCard
from knowledge.refine import merge_finding, merge_findings
from knowledge.schema import check, show
from knowledge.store import builtin_directory, folder_of, load_card, load_cards
from knowledge.yamlfile import YamlError, loads

TODAY = date(2026, 11, 29)
TIERS = ("model-architecture", "algorithm", "hardware", "framework")
SKILL = """\
# what a person wrote
schema: fvec.card/1
kind: skill
id: {id}
tier: {tier}
title: Sort less
tags: [numpy, features]
when: everything is sorted
how: [select, then sort]  # two steps
activation: select is on the stacks
pitfalls: [ties]
sources: [{{title: t, url: 'https://example.com/a'}}]
"""
NAMED = SKILL.format(id="sort-less", tier="algorithm")
CARDS = load_cards(builtin_directory())
REMARK = "# a remark\n"


def finding(number: int = 0, **changes: object) -> Finding:
    """A finding as large as real ones are: of the run of a day."""
    values: dict[str, object] = {
        "date": TODAY - timedelta(days=number),
        "stack": "ads-serving",
        "commit": f"{number:040x}",
        "model": "features",
        "issue": f"issue-{number}",
        "verdict": "accepted" if number % 3 else "rejected",
        "reason": "gain_confirmed",
        "gain": 1.0 + number / 100,
        "ci": (1.0, 2.0),
        "share": 0.25,
        "hardware": "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz, 2 cores",
        "versions": {"triton": "2.51.0", "python": "3.11.7", "numpy": "1.26.4"},
        "workload": "b94d27b9934d3e08",
        "fvec": "0.1.0",
        "code": {"features": "e3b0c44298fc1c149afbf4c8996fb924"},
        "on_top": ["lookups-one-pass on features", "native-string-tensors on features"],
        "run": f"run-{number}",
    }
    return Finding.model_validate(values | changes)


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def skill_of(text: str) -> SkillCard:
    card = loads(text, Path("s.yaml"), TRIED)
    assert isinstance(card, SkillCard)
    return card


# What ships


def test_each_tier_has_skills_enough_that_are_short() -> None:
    tiers = Counter(skill.tier for skill in CARDS.skills)
    assert set(tiers) == set(TIERS)
    assert min(tiers.values()) >= 5
    assert tiers.total() >= 24
    sizes = {skill.id: CARDS.path_of(skill.id).stat().st_size for skill in CARDS.skills}
    assert max(sizes.values()) < MAX_SKILL_BYTES / 3, sizes  # the rest is for what is found
    assert len({skill.title for skill in CARDS.skills}) == len(CARDS.skills)


@pytest.mark.parametrize("skill", CARDS.skills, ids=[skill.id for skill in CARDS.skills])
def test_a_packaged_skill_is_sourced_tagged_and_lies_where_it_belongs(skill: SkillCard) -> None:
    path = CARDS.path_of(skill.id)
    place = path.relative_to(builtin_directory())
    assert place.parent.as_posix() == folder_of(skill).as_posix() == f"skills/{skill.tier}"
    assert any((source.url or "").startswith("https://") for source in skill.sources)
    layers = {"kernel", "graph", "server", "features", "config"}
    assert layers & set(skill.tags), "a planner looks for skills of the layers that it may change"
    assert len(set(skill.tags)) == len(skill.tags)


@pytest.mark.parametrize("skill", CARDS.skills, ids=[skill.id for skill in CARDS.skills])
def test_a_packaged_skill_takes_a_finding_and_keeps_every_other_byte(skill: SkillCard) -> None:
    text = CARDS.path_of(skill.id).read_text("utf-8")
    merged = merge_finding(text, finding())
    assert merged.startswith(text.replace("findings: []\n", "findings:\n"))
    assert skill_of(merged).findings == [finding()]


# Findings and size


def test_a_skill_stays_within_its_size_and_counts_all_however_many_runs(tmp_path) -> None:
    text, runs = NAMED, 24
    for number in reversed(range(runs)):
        text = merge_findings(text, [finding(number)], today=TODAY)
        assert len(text.encode()) <= MAX_SKILL_BYTES
    card = skill_of(text)
    assert text.startswith(NAMED)
    assert card.earlier is not None
    assert len(card.findings) + card.earlier.count == runs
    assert card.earlier.accepted + sum(f.verdict == "accepted" for f in card.findings) == 16
    assert card.findings[0] == finding(0)
    assert len(card.findings) >= 5
    path = put(tmp_path / "skills/algorithm/sort-less.yaml", text)
    assert check([tmp_path], TODAY) == []
    assert load_card(path) == card


def test_a_merge_that_is_repeated_changes_nothing_where_the_size_was_the_bound() -> None:
    run = [finding(0, issue=f"issue-{n}", run="run-1") for n in range(15)]
    once = merge_findings(NAMED, run)
    assert len(once.encode()) <= MAX_SKILL_BYTES
    card = skill_of(once)
    assert card.earlier is not None
    assert len(card.findings) + card.earlier.count == 15
    assert merge_findings(once, run) == once


def padded(room: float) -> str:
    """The skill with remarks of a person that leave about so many bytes."""
    return NAMED + REMARK * int((MAX_SKILL_BYTES - room - len(NAMED)) // len(REMARK))


def test_what_was_found_makes_room_for_what_a_person_wrote() -> None:
    one = len(merge_finding(NAMED, finding(0))) - len(NAMED)
    run = [finding(number) for number in (3, 2, 1, 0)]
    text = padded(3.6 * one)  # not for four; for one, and for the best and the last of three
    merged = merge_findings(text, run)
    card = skill_of(merged)
    assert len(merged.encode()) <= MAX_SKILL_BYTES
    assert card.findings == [finding(0)]
    assert card.earlier is not None
    assert (card.earlier.count, card.earlier.best, card.earlier.last) == (3, finding(2), finding(1))
    assert merged.count(REMARK) == text.count(REMARK)


def test_a_skill_without_room_says_so(tmp_path) -> None:
    full = padded(0)
    assert len(full.encode()) <= MAX_SKILL_BYTES
    with pytest.raises(YamlError, match="would be larger than the 8192 bytes of a skill"):
        merge_finding(full, finding())
    path = put(tmp_path / "skills/algorithm/sort-less.yaml", full)
    assert check([tmp_path], TODAY) == []
    put(path, full + REMARK)
    (problem,) = check([tmp_path], TODAY)
    assert str(problem).startswith(f"{path}: is larger than the 8192 bytes of a skill")


def test_issues_of_one_commit_have_findings_of_their_own_and_the_newest_try_of_one_counts() -> None:
    tries = [
        finding(0, issue="b", run="run-1", verdict="accepted"),
        finding(0, issue="a", run="run-1", verdict="rejected"),
        finding(0, issue="b", run="run-1", verdict="rejected", reason="outputs_differ"),
    ]
    card = skill_of(merge_findings(NAMED, tries))
    assert card.findings == tries[:2]


# Store and check


def test_skills_are_loaded_by_id_and_refined_by_later_folders(tmp_path) -> None:
    put(tmp_path / "a/skills/hardware/z.yaml", SKILL.format(id="z", tier="hardware"))
    put(tmp_path / "a/skills/algorithm/b.yaml", SKILL.format(id="b", tier="algorithm"))
    refined = merge_finding(SKILL.format(id="b", tier="algorithm"), finding())
    newer = put(tmp_path / "b/b.yaml", refined)
    cards = load_cards(tmp_path / "a", tmp_path / "b")
    assert [skill.id for skill in cards.skills] == ["b", "z"]
    assert cards.tried == cards.skills
    assert (cards.cookbook, cards.facts) == ((), ())
    assert cards.get("b") == cards.skills[0]
    assert cards.skills[0].findings == [finding()]
    assert cards.path_of("b") == newer


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SKILL.format(id="b", tier="hardware"), "refines 'b', a skill of tier algorithm"),
        (
            "schema: fvec.card/1\nkind: model\nid: b\ntitle: t\nfacts: {}\n",
            "refines 'b', a card of another kind",
        ),
    ],
)
def test_a_refinement_keeps_what_a_skill_is(tmp_path, text: str, message: str) -> None:
    put(tmp_path / "a/b.yaml", SKILL.format(id="b", tier="algorithm"))
    path = put(tmp_path / "b/b.yaml", text)
    with pytest.raises(YamlError) as caught:
        load_cards(tmp_path / "a", tmp_path / "b")
    assert str(caught.value) == f"{path}: {message}"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("algorithm", "algorithms", "5:7: tier: must be a known value, not algorithms"),
        ("https://example.com/a", "http://example.com/a", "12:10: sources: none has a public"),
        ("[ties]", "[]", "11:11: pitfalls: "),
        ("tags: [numpy, features]", "tags: [Num Py]", "7:8: tags.0: "),
        ("activation: select is on the stacks\n", "", "2:1: activation: is missing"),
        ("pitfalls", "pitfals", "11:1: pitfals: unknown key\n  hint: did you mean 'pitfalls'?"),
    ],
)
def test_what_is_no_skill_is_refused_with_its_place(tmp_path, old, new, problem) -> None:
    path = put(tmp_path / "skills/algorithm/sort-less.yaml", NAMED.replace(old, new))
    assert any(str(one).startswith(f"{path}:{problem}") for one in check([tmp_path], TODAY))


def test_check_names_the_folder_the_order_of_findings_and_dates_to_come(tmp_path) -> None:
    text = merge_finding(merge_finding(NAMED, finding(2)), finding(1))
    path = put(tmp_path / "skills/hardware/sort-less.yaml", text)
    folder = f"{path}:5:1: tier: is not the folder, 'hardware'\n  hint: move it to a folder "
    assert [str(problem) for problem in check([tmp_path], TODAY)] == [f"{folder}algorithm/"]
    late = check([tmp_path], TODAY - timedelta(days=2))
    assert [problem.message for problem in late[1:]] == [
        "findings: 2026-11-28 lies after today, 2026-11-27"
    ]
    head, first, second = text.split("  - date: ")
    put(path, f"{head}  - date: {second}  - date: {first}")
    assert any("are not newest first" in problem.message for problem in check([tmp_path], TODAY))


# Shown


def test_a_shown_skill_is_plain_data_in_the_order_of_its_file() -> None:
    assert list(show(skill_of(NAMED))) == [
        "schema", "kind", "id", "tier", "title", "tags", "when", "how", "activation", "pitfalls",
        "sources",
    ]  # fmt: skip


def shown(*skills: SkillCard, whole: bool) -> str:
    console = Console(width=100, file=io.StringIO())
    console.print(render.blocks([], [], skills, whole=whole))
    text = console.file.getvalue()
    return text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{MULTIPLICATION SIGN}", "x")


def test_a_block_says_when_and_as_a_whole_how_and_how_to_see_it_run() -> None:
    assert [line.rstrip() for line in shown(skill_of(NAMED), whole=False).splitlines()][:4] == [
        "sort-less  skill, algorithm",
        "Sort less",
        "  when   everything is sorted",
        "  tried  not yet where these cards come from",
    ]
    card = skill_of(merge_finding(NAMED, finding(1, issue="[red]x\x1b[31m")))
    text = shown(card, whole=True)
    for words in ("then sort", "select is on the stacks", "ties", "https://example.com/a"):
        assert words in text
    told = " ".join(text.split())
    assert "[red]x[31m on features of ads-serving: accepted on 2026-11-28 (gain_confirmed)" in told
    assert "1.01x (1.00 to 2.00), at 25.0 % of the time" in told
    assert "\x1b" not in text


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    code = cli.main(["knowledge", "show", *argv])
    return code, capsys.readouterr().out


def test_skills_are_listed_and_shown_by_the_command(capsys) -> None:
    code, out = call(capsys)
    assert code == 0
    assert "partial-top-k  skill, algorithm" in out
    code, out = call(capsys, "partial-top-k")
    assert (code, out.splitlines()[0]) == (0, "partial-top-k  skill, algorithm")
    assert "argpartition" in out
    rows = json.loads(call(capsys, "--json")[1])["cards"]
    (row,) = [row for row in rows if row["id"] == "partial-top-k"]
    assert (row["about"], row["tier"], row["findings"]) == ("skill", "algorithm", 0)
    whole = json.loads(call(capsys, "partial-top-k", "--json")[1])
    assert (whole["kind"], "overview" in whole) == ("skill", False)


def test_a_skill_is_of_no_layer(capsys) -> None:
    assert "skill, " not in call(capsys, "--layer", "features")[1]
    assert call(capsys, "partial-top-k", "--layer", "features")[0] == 3

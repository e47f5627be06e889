from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from knowledge.cards import Finding
from knowledge.refine import merge_finding
from knowledge.schema import card_schema, check, show
from knowledge.store import builtin_directory, load_cards
from knowledge.yamlfile import YamlError

COOKBOOK = """\
schema: fvec.card/1
kind: cookbook
id: {id}
layer: server
title: {title}
symptom: s
why: w
change: c
transform: rewrite
change_class: exact
exactness: e
gain: {{expected: 0.5, best: 0.9}}
sources: [{{title: t}}]
"""
FACT = """\
schema: fvec.card/1
kind: model
id: {id}
title: t
facts: {{heads: 4}}
sources: [{{title: t}}]
"""


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def finding(commit: str, day: int) -> Finding:
    return Finding(
        date=date(2026, 11, day),
        stack="ads",
        commit=commit,
        verdict="rejected",
        reason="below_noise",
        hardware="xeon",
    )


def test_the_packaged_cards_load_and_pass_the_check() -> None:
    cards = load_cards(builtin_directory())
    assert check([builtin_directory()]) == []
    assert [card.id for card in cards.for_layer("server")] == ["native-string-tensors"]
    assert {card.id for card in cards.facts} >= {"triton-2-51", "x86-server-cpu"}


def test_the_findings_of_a_later_directory_replace_those_of_the_card_that_it_refines(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    text = COOKBOOK.format(id="a", title="old")
    put(first / "cookbook/server/a.yaml", merge_finding(text, finding("c1", 1)))
    put(first / "cookbook/server/b.yaml", COOKBOOK.format(id="b", title="other"))
    put(first / "model/m.yaml", FACT.format(id="m"))
    text = COOKBOOK.format(id="a", title="new")
    newer = put(second / "cookbook/server/a.yaml", merge_finding(text, finding("c2", 2)))
    cards = load_cards(first, second, tmp_path / "absent")
    assert [(card.id, card.title) for card in cards.cookbook] == [("a", "new"), ("b", "other")]
    assert cards.cookbook[0].findings == [finding("c2", 2)]
    assert [card.id for card in cards.facts] == ["m"]
    assert cards.path_of("a") == newer
    assert cards.get("m") == cards.facts[0]
    assert cards.get("none") is None
    assert cards.for_layer("features") == ()


def test_the_errors_of_all_files_are_raised_together(tmp_path: Path) -> None:
    a = put(tmp_path / "a.yaml", COOKBOOK.format(id="a", title="1"))
    b = put(tmp_path / "b.yaml", FACT.format(id="B"))
    c = put(tmp_path / "c.yaml", COOKBOOK.format(id="d", title="t"))
    d = put(tmp_path / "d.yaml", COOKBOOK.format(id="d", title="t"))
    link = tmp_path / "e.yaml"
    link.symlink_to(c)
    with pytest.raises(YamlError) as caught:
        load_cards(tmp_path)
    assert str(caught.value) == (
        f'{a}:5:8: title: input should be a valid string, not 1\n  hint: quote it: "1"\n'
        f"{b}:3:5: id: string should match pattern '^[a-z0-9][a-z0-9-]{{0,62}}$', not B\n"
        f"{d}: the id 'd' is already that of {c}\n"
        f"{link}: is a symbolic link\n  hint: put the card itself here"
    )


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            COOKBOOK,
            COOKBOOK.replace("class: exact", "class: reorder"),
            "change_class: reorder is looser than the card's exact\n"
            "  hint: give the card an id of its own",
        ),
        (COOKBOOK, COOKBOOK.replace("server", "graph"), "refines 'a', a card of layer server"),
        (COOKBOOK, FACT, "refines 'a', a card of another kind"),
        (FACT, COOKBOOK, "refines 'a', a card of another kind"),
    ],
)
def test_a_refinement_may_not_loosen_or_change_what_a_card_is(
    tmp_path: Path, before: str, after: str, message: str
) -> None:
    put(tmp_path / "first" / "a.yaml", before.format(id="a", title="t"))
    path = put(tmp_path / "second" / "a.yaml", after.format(id="a", title="t"))
    with pytest.raises(YamlError) as caught:
        load_cards(tmp_path / "first", tmp_path / "second")
    assert str(caught.value) == f"{path}: {message}"


def test_a_refinement_may_tighten_the_change_class(tmp_path: Path) -> None:
    loose = COOKBOOK.replace("class: exact", "class: approximate")
    put(tmp_path / "first" / "a.yaml", loose.format(id="a", title="t"))
    put(tmp_path / "second" / "a.yaml", COOKBOOK.format(id="a", title="t"))
    cards = load_cards(tmp_path / "first", tmp_path / "second")
    assert [card.change_class for card in cards.cookbook] == ["exact"]


def test_check_names_every_broken_convention_with_its_place(tmp_path: Path) -> None:
    findings = "findings:\n" + "".join(
        f"- {{date: 2026-11-0{day}, stack: s, commit: c, verdict: failed, reason: r, hardware: h}}\n"
        for day in (1, 2)
    )
    text = COOKBOOK.format(id="a", title="t").replace("{title: t}", "{title: t, url: 'file:/x'}")
    card = put(tmp_path / "features" / "b.yml", text + findings)
    fact = put(tmp_path / "model" / "m.yaml", FACT.format(id="a").replace("[{title: t}]", "[]"))
    assert list(map(str, check([tmp_path, tmp_path / "no"]))) == [
        f"{card}: a card's file ends in .yaml",
        f"{card}:3:1: id: is not the file's name, 'b'\n  hint: name the file a.yaml, or the card b",
        f"{card}:4:1: layer: is not the folder, 'features'\n  hint: move it to a folder server/",
        f"{card}:13:1: sources: 'file:/x' is no https address",
        f"{card}:14:1: findings: are not newest first, one per stack and commit",
        f"{fact}:3:1: id: is not the file's name, 'm'\n  hint: name the file a.yaml, or the card m",
        f"{fact}:3:1: id: is already the id of {card}",
        f"{fact}:4:1: title: a card names its sources\n  hint: add sources:",
        f"{tmp_path / 'no'}: is not a directory",
    ]


def test_a_date_after_today_is_a_problem_with_its_place(tmp_path: Path) -> None:
    text = merge_finding(COOKBOOK.format(id="a", title="t"), finding("c1", 3))
    card = put(tmp_path / "server" / "a.yaml", text)
    assert check([tmp_path], date(2026, 11, 3)) == []
    (problem,) = check([tmp_path], date(2026, 11, 2))
    message = "findings: 2026-11-03 lies after today, 2026-11-02"
    assert str(problem).startswith(f"{card}:14:1: {message}\n  hint: put the day of the run there")


def test_the_schema_names_all_families_and_forbids_other_keys() -> None:
    schema = card_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert set(schema["$defs"]) == {
        "CookbookCard", "Earlier", "FactCard", "Finding", "GainRange", "SkillCard", "Source",
    }  # fmt: skip
    assert schema["discriminator"]["mapping"]["cookbook"] == "#/$defs/CookbookCard"
    assert schema["discriminator"]["mapping"]["skill"] == "#/$defs/SkillCard"
    assert schema["$defs"]["CookbookCard"]["additionalProperties"] is False


def test_a_shown_card_is_plain_data_in_file_order(tmp_path: Path) -> None:
    put(tmp_path / "m.yaml", FACT.format(id="m"))
    assert list(show(load_cards(tmp_path).facts[0]).items()) == [
        ("schema", "fvec.card/1"),
        ("kind", "model"),
        ("id", "m"),
        ("title", "t"),
        ("facts", {"heads": 4}),
        ("sources", [{"title": "t"}]),
    ]

"""Which skills are offered for a situation."""

from __future__ import annotations

import random

import pytest

from knowledge.cards import SkillCard
from knowledge.retrieval import matching
from knowledge.store import builtin_directory, load_cards

SKILLS = load_cards(builtin_directory()).skills


def skill(name: str, *tags: str, when: str = "nothing", how: str = "nothing") -> SkillCard:
    return SkillCard.model_validate(
        {
            "schema": "fvec.card/1",
            "kind": "skill",
            "id": name,
            "tier": "algorithm",
            "title": f"About {name}",
            "tags": list(tags) or ["untagged"],
            "when": when,
            "how": [how],
            "activation": "activation",
            "pitfalls": ["pitfall"],
            "sources": [{"title": "t", "url": "https://example.com"}],
        }
    )


def ids(skills: list[SkillCard], text: str, *tags: str, most: int = 5) -> list[str]:
    return [match.skill.id for match in matching(skills, text, tags, most)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("numpy.argsort over all scores in rank(), then scores[:k] is kept", "partial-top-k"),
        ("embedding_bag is called once for each of dozens of tables", "table-batched-lookups"),
        ("slow tail: gc.collect walks millions of objects", "frozen-collector"),
        ("FORCE_CPU_ONLY_INPUT_TENSORS and dlpack", "tensors-without-copies"),
        ("prompts share a long beginning and history, prefill takes 60 %", "prefix-cache"),
        ("malloc, free and page faults in the features process", "preloaded-allocator"),
        ("a two-tower model computes the item tower for every request", "precomputed-item-vectors"),
        ("batch normalisation behind a linear layer", "folded-batch-norm"),
    ],
)
def test_the_skill_of_a_situation_is_among_the_first(text: str, wanted: str) -> None:
    assert wanted in ids(SKILLS, text, most=3)


@pytest.mark.parametrize("text", ["", "   ", "the and of which is not", "zebra quokka", "12 345 x"])
def test_nothing_in_common_is_nothing(text: str) -> None:
    assert ids(SKILLS, text) == []


def test_a_word_that_most_skills_say_tells_nothing() -> None:
    told = [skill(f"s{n}", when=f"the model of number{n}") for n in range(6)]
    assert ids(told, "a model") == []
    assert ids(told, "a model, number3") == ["s3"]
    assert ids(told[:2], "a model") == ["s0", "s1"]  # of so few, all may be meant


def test_names_of_functions_are_words_and_words_have_forms() -> None:
    told = [skill("a", when="inputs are read"), skill("b", when="outputs"), skill("c"), skill("d")]
    assert ids(told, "get_input_tensor_by_name") == ["a"]


def test_what_the_title_says_counts_for_more_than_what_the_steps_say() -> None:
    told = [skill("sorting"), skill("a", how="sorting"), *(skill(f"s{n}") for n in range(4))]
    assert ids(told, "sorting") == ["sorting", "a"]


def test_shared_tags_order_what_was_found_and_find_where_there_is_no_text() -> None:
    told = [skill("a", when="vector"), skill("b", "cpu", when="vector"), skill("c", "cpu", "gpu")]
    assert ids(told, "vector") == ["a", "b"]
    assert ids(told, "vector", "cpu") == ["b", "a"]
    assert ids(told, "", "cpu", "gpu") == ["c", "b"]
    assert ids(told, "zebra", "cpu") == []


def test_why_names_the_rarest_words_and_the_tags() -> None:
    told = [
        skill("a", "cpu", when="vector matrix"),
        skill("s", when="vector"),
        *(skill(f"t{n}") for n in range(4)),
    ]
    match = matching(told, "Vector and MATRIX", ["cpu"])[0]
    assert (match.skill.id, match.why) == ("a", "says matrix, vector; tagged cpu")
    assert matching(told, "", ["cpu"])[0].why == "tagged cpu"


def test_the_answer_does_not_depend_on_the_order_of_skills_and_ties_are_by_id() -> None:
    told = [skill(name, when="vector") for name in ("d", "b", "a", "c")]
    told += [skill(f"other{n}") for n in range(8)]
    random.Random(7).shuffle(told)
    assert ids(told, "vector") == ["a", "b", "c", "d"]
    assert ids(told, "vector", most=2) == ["a", "b"]
    assert ids(told, "vector", most=0) == []
    text = "numpy torch batch decode embedding"
    shuffled = list(SKILLS)
    random.Random(3).shuffle(shuffled)
    assert matching(shuffled, text) == matching(SKILLS, text)


@pytest.mark.parametrize(
    "text",
    [
        '" OR skills MATCH "',
        'argsort" OR "',
        "NEAR(argsort numpy) AND NOT ^title : -x*",
        "'; DROP TABLE skills; --",
        "\x00 argsort \ud800 \U0001f600",
        "argsort " * 100_000,
        "x" * 1_000_000 + " argsort",
    ],
    ids=["keyword", "quote", "operators", "statement", "odd", "repeated", "long"],
)
def test_text_is_words_and_no_query(text: str) -> None:
    found = matching(SKILLS, text)
    assert len(found) <= 5
    assert ids(SKILLS, "argsort") == ["partial-top-k"]
    assert all(match.why.startswith("says ") for match in found)


def test_no_skills_match_nothing() -> None:
    assert matching([], "numpy", ["cpu"]) == []

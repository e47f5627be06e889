"""Any text at all, put to the search for skills."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge.retrieval import matching
from knowledge.store import builtin_directory, load_cards

SKILLS = load_cards(builtin_directory()).skills
WORDS = sorted({word for skill in SKILLS for word in f"{skill.title} {skill.when}".split()})
TEXTS = st.text(max_size=200) | st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)
TAGS = st.sets(st.sampled_from(sorted({tag for skill in SKILLS for tag in skill.tags})), max_size=4)


@settings(deadline=None, max_examples=100)
@given(TEXTS, TAGS, st.integers(0, 40), st.randoms(use_true_random=False))
def test_matches_are_few_different_and_the_same_in_any_order_of_skills(text, tags, most, rng):
    found = matching(SKILLS, text, tags, most)
    assert len(found) <= most
    assert len({match.skill.id for match in found}) == len(found)
    shuffled = list(SKILLS)
    rng.shuffle(shuffled)
    assert matching(shuffled, text, tags, most) == found
    for match in found:
        assert match.why.startswith(("says ", "tagged "))
    assert [m.skill.id for m in matching(SKILLS, text, tags, most + 1)][: len(found)] == [
        match.skill.id for match in found
    ]


@settings(deadline=None, max_examples=60)
@given(TEXTS, TAGS)
def test_with_text_tags_find_nothing_by_themselves(text, tags):
    if text.strip():
        everything = len(SKILLS)
        by_words = {match.skill.id for match in matching(SKILLS, text, (), everything)}
        assert {match.skill.id for match in matching(SKILLS, text, tags, everything)} == by_words

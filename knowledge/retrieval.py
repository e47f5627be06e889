"""Which skills fit a situation: by words, and by tags that they share with it. Pure.

Words are weighed by BM25 (SQLite's FTS5, in memory): one that few skills say counts for more than
one that many say. The same skills, text and tags give the same answer.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from knowledge.cards import SkillCard

MOST = 5
_TAG = 1.0  # a shared tag counts for about as much as a word that a third of the skills say
_MOST_TEXT = 200_000  # characters that are read: a log may have no end
_MOST_WORDS = 500  # different ones that are looked up
_MOST_TELLING = 60  # the rarest of those that were found
_MOST_SAID = 5  # named in `Match.why`
_LONGEST = 40  # characters of a word
_WORD = re.compile(r"[^\W_]+")  # names_of_functions are several words
_SAY_NOTHING = """
    about above after again all already also an and any are as at be because been before being below
    between both but by can cannot could did do does done down during each either else even every few
    for from further get gets given go goes had has have having here how if in into is it its itself
    just least less let like made make makes many may more most much must near neither never no none
    nor not nothing now of off on once one only onto or other others our out over own per rather same
    see seen several she should since so some still such take takes than that the their them then
    there these they this those through to together too two under until up upon us use used uses using
    very was we well were what when where whether which while who whole whose why will with within
    without would yet you your
"""
_IGNORED = frozenset(_SAY_NOTHING.split())

_TABLE = """
    CREATE VIRTUAL TABLE skills USING fts5(
        title, tags, situation, steps, tokenize='porter unicode61'
    )
"""
_INSERT = "INSERT INTO skills (rowid, title, tags, situation, steps) VALUES (?, ?, ?, ?, ?)"
_HOLDING = "SELECT rowid FROM skills WHERE skills MATCH ?"
_SCORED = "SELECT rowid, -bm25(skills, 4.0, 4.0, 2.0, 1.0) FROM skills WHERE skills MATCH ?"


@dataclass(frozen=True, slots=True)
class Match:
    """A skill, and in a few words what it has in common with the situation."""

    skill: SkillCard
    why: str


def matching(
    skills: Sequence[SkillCard], text: str, tags: Collection[str] = (), most: int = MOST
) -> list[Match]:
    """Return the skills that have a telling word in common with a situation, best first.

    `text` is any text, such as a profile, source code or a claim: only its words are looked at.
    A word that more than half of the skills say tells nothing. Shared tags only raise a skill among
    those that were found, or find it where there is no text. At most `most` are returned; skills
    that fit equally well are ordered by id.
    """
    ordered = sorted(skills, key=lambda skill: skill.id)
    wanted = frozenset(tags)
    shared = [[tag for tag in skill.tags if tag in wanted] for skill in ordered]
    said, scores = _by_words(ordered, text)
    worth = {
        n: round(scores.get(n, 0.0) + _TAG * len(shared[n]), 6)
        for n in range(len(ordered))
        if n in scores or (shared[n] and not text.strip())
    }
    best = sorted(worth, key=lambda n: (-worth[n], n))[: max(0, most)]
    return [Match(ordered[n], _why(shared[n], said.get(n, []))) for n in best]


def _by_words(
    skills: Sequence[SkillCard], text: str
) -> tuple[dict[int, list[str]], dict[int, float]]:
    """Return, by number of the skill, the telling words that it shares with `text`, and its score."""
    said: dict[int, list[str]] = {}
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(_TABLE)
        database.executemany(_INSERT, [_row(n, skill) for n, skill in enumerate(skills)])
        telling = _telling(database, _words(text), len(skills))
        for word, holders in telling.items():
            for n in holders:
                said.setdefault(n, []).append(word)
        query = " OR ".join(map(_quoted, telling))
        scores = dict(database.execute(_SCORED, (query,)).fetchall()) if query else {}
    return said, scores


def _telling(
    database: sqlite3.Connection, words: Iterator[str], total: int
) -> dict[str, list[int]]:
    """Return the words that some skills say and not most of them, rarest first, with their skills."""
    found: dict[str, list[int]] = {}
    for word in words:
        holders = [n for (n,) in database.execute(_HOLDING, (_quoted(word),))]
        if 0 < len(holders) <= max(2, total // 2):
            found[word] = holders
    rarest = sorted(found, key=lambda word: len(found[word]))  # stable: else as in the text
    return {word: found[word] for word in rarest[:_MOST_TELLING]}


def _words(text: str) -> Iterator[str]:
    """Yield the different words of a text that may tell something, in its order."""
    seen: set[str] = set()
    for match in _WORD.finditer(text[:_MOST_TEXT].lower()):
        word = match.group()
        known = word in seen or word in _IGNORED
        if 1 < len(word) <= _LONGEST and not word.isdigit() and not known:
            seen.add(word)
            yield word
        if len(seen) == _MOST_WORDS:
            return


def _quoted(word: str) -> str:
    """Return a word as FTS5 takes it for nothing else: it holds letters and digits alone."""
    return f'"{word}"'


def _row(number: int, skill: SkillCard) -> tuple[int, str, str, str, str]:
    return number, skill.title, " ".join(skill.tags), skill.when, "\n".join(skill.how)


def _why(tags: Sequence[str], words: Sequence[str]) -> str:
    parts = []
    if words:
        parts.append(f"says {', '.join(words[:_MOST_SAID])}")
    if tags:
        parts.append(f"tagged {', '.join(tags)}")
    return "; ".join(parts)

"""Refining a card by what a run found.

A card is refined in place: only the findings and the summary of dropped ones change, every other
byte of the file stays. All functions are pure.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from knowledge.cards import (
    MAX_FINDINGS,
    MAX_SKILL_BYTES,
    TRIED,
    CookbookCard,
    Earlier,
    Finding,
    TriedCard,
)
from knowledge.yamlfile import YamlError, loads
from knowledge.yamltree import Node, parse

_WIDTH = 100
_UNESCAPED = frozenset("\x85\u2028\u2029\ufeff")


def bounded(findings: Sequence[Finding]) -> list[Finding]:
    """Return `findings` newest first, one per `Finding.key`, at most MAX_FINDINGS.

    Of two with the same key the newer stays, of two of one day the first. Beyond the bound the
    oldest goes whose stack, model and verdict a newer one repeats, else the oldest.
    """
    return _bounded(findings, ())[0]


def _bounded(
    findings: Sequence[Finding],
    keep: Collection[Finding],
    today: date = date.max,
    most: int = MAX_FINDINGS,
) -> tuple[list[Finding], list[Finding]]:
    """Return what stays and what goes beyond the bound; nothing of `keep` goes.

    A finding with a date after `today` gives way to every other.
    """
    unique: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        known = unique.setdefault(finding.key, finding)
        if _age(finding, today) > _age(known, today):
            unique[finding.key] = finding
    kept, gone = sorted(unique.values(), key=lambda f: f.date, reverse=True), list[Finding]()
    while len(kept) > most:
        others = [i for i, f in enumerate(kept) if not any(f is one for one in keep)]
        late = [i for i in others if kept[i].date > today]
        repeated = [i for i in others if _repeats(kept[i], kept[:i])]
        gone.append(kept.pop((late or repeated or others)[-1]))
    return kept, gone


def _age(finding: Finding, today: date) -> tuple[bool, date]:
    """Return what is greater for a newer finding; a date that no run can have had is the least."""
    return finding.date <= today, finding.date


def merge_finding(text: str, finding: Finding, path: Path = Path("card.yaml")) -> str:
    """Return the text of a card with one finding merged in; see `merge_findings`."""
    return merge_findings(text, [finding], path)


def merge_findings(
    text: str,
    findings: Sequence[Finding],
    path: Path = Path("card.yaml"),
    today: date = date.max,
) -> str:
    """Return the text of a card with the findings of one run merged into its own.

    One replaces an older finding of the same key; one of a run that the card has already changes
    nothing. What goes beyond MAX_FINDINGS, of a skill also beyond MAX_SKILL_BYTES, is counted in
    `earlier`, what is dated after `today` first of all. Every byte outside the two
    blocks stays, and so do comments on lines of their own in `earlier`. Those right above a finding
    stay above it, or above the one that replaces it, and go when it goes; those in it go with it.
    Above the first, a blank line parts what is about the list from what is about the finding.
    Raises YamlError (naming `path`) when the text is no valid card or cannot be edited in place.
    """
    card = loads(text, path, TRIED)
    updated = condensed(card, findings, today)
    if updated is card:
        return text
    if parse(text, path).flow:
        raise YamlError(path, 1, 1, "cannot be refined in place", "write it in block style")
    for most in range(len(updated.findings), 0, -1):
        updated = condensed(card, findings, today, most)
        merged = _merged(text, path, card, updated)
        if isinstance(card, CookbookCard) or len(merged.encode()) <= MAX_SKILL_BYTES:
            return _verified(merged, text, path, updated)
    message = f"would be larger than the {MAX_SKILL_BYTES} bytes of a skill with one finding"
    raise YamlError(path, None, None, message, "say less: whoever uses it reads all of it")


def _merged(text: str, path: Path, card: TriedCard, updated: TriedCard) -> str:
    """Return the text of `card` as that of `updated`, which differs in what was found."""
    newline = "\r\n" if "\r\n" in text else "\n"
    merged = _splice(text.replace("\r\n", "\n"), path, card.findings, updated.findings)
    if updated.earlier is not None and updated.earlier != card.earlier:
        merged = _with_earlier(merged, path, updated.earlier)
    return merged.replace("\n", newline)


def _verified(merged: str, text: str, path: Path, updated: TriedCard) -> str:
    """Return `merged`, made of `text`, unless it does not read as `updated`."""
    if loads(merged, path, TRIED) != updated:
        place = parse(text, path).keys.get("findings")
        line, column = (place.line, place.column) if place else (None, None)
        raise YamlError(path, line, column, "cannot be refined in place", "simplify the findings")
    return merged


def condensed(
    card: TriedCard, findings: Sequence[Finding], today: date = date.max, most: int = MAX_FINDINGS
) -> TriedCard:
    """Return the card with the findings of one run in it, at most `most`, and its summary.

    The same card object where it holds them all already. Findings of a run stay as long as they
    are half of what a card may hold, or fewer, however old.
    """
    fresh = [finding for finding in findings if not _known(finding, card, today)]
    if not fresh:
        return card
    keep = fresh if len(fresh) <= max(1, most // 2) else ()
    kept, gone = _bounded([*fresh, *card.findings], keep, today, most)
    return card.model_copy(update={"findings": kept, "earlier": _summed(card.earlier, gone, today)})


def _known(finding: Finding, card: TriedCard, today: date) -> bool:
    """Whether the card holds this finding, or a newer one in its place, or counted it before."""
    if card.earlier is not None and finding.run == card.earlier.last.run != "":
        return True
    same = [known for known in card.findings if known.key == finding.key]
    return any(finding.date < k.date <= today or (k.run == finding.run != "") for k in same)


def _summed(earlier: Earlier | None, gone: Sequence[Finding], today: date) -> Earlier | None:
    """Return the summary with the findings in it that go."""
    if not gone:
        return earlier
    old = [] if earlier is None else [earlier.last]
    best = [f for f in gone if f.verdict == "accepted" and f.gain is not None]
    best += [earlier.best] if earlier is not None and earlier.best is not None else []
    counts = {
        verdict: sum(f.verdict == verdict for f in gone) + getattr(earlier, verdict, 0)
        for verdict in ("accepted", "rejected", "inconclusive", "failed")
    }
    return Earlier(
        **counts,
        since=min([f.date for f in gone] + ([] if earlier is None else [earlier.since])),
        best=max(best, key=lambda f: (f.gain or 0.0, f.date), default=None),
        last=max([*gone, *old], key=lambda f: _age(f, today)),
    )


def _splice(text: str, path: Path, old: Sequence[Finding], wanted: Sequence[Finding]) -> str:
    root = parse(text, path)
    keys = root.keys
    node = (root.mapping or {}).get("findings")
    if node is None or node.sequence is None:
        at, indent = _line_end(text, _content_end(root)), min(p.column for p in keys.values()) - 1
        block = f"{' ' * indent}findings:\n{_render(wanted, indent + 2)}"
        return f"{_closed(text[:at])}{block}{text[at:]}"
    indent = keys["findings"].column + 1
    if node.flow:
        text = text[: node.place.start].rstrip(" ") + text[node.place.end :]
        at = _line_end(text, keys["findings"].end)
        return f"{_closed(text[:at])}{_render(wanted, indent)}{text[at:]}"
    return _reordered(text, _chunks(text, node), old, wanted)


def _with_earlier(text: str, path: Path, earlier: Earlier) -> str:
    """Return the text with the summary behind the findings, or in the place of the old one."""
    root = parse(text, path)
    children, keys = root.mapping or {}, root.keys
    node = children.get("earlier")
    if node is None:
        at = _line_end(text, _content_end(children["findings"]))
        indent = min(place.column for place in keys.values()) - 1
        head, comments = f"{_closed(text[:at])}{' ' * indent}earlier:\n", ""
    else:
        at, indent = _line_end(text, _content_end(node)), keys["earlier"].column - 1
        if node.mapping is None or node.flow:
            text = text[: keys["earlier"].end] + ":" + text[node.place.end :]
            at = _line_end(text, keys["earlier"].end)
        below = _line_end(text, keys["earlier"].end)
        lines = text[below:at].splitlines(keepends=True)
        comments = "".join(_closed(line) for line in lines if line.lstrip().startswith("#"))
        head = _closed(text[:below])
    values = _escaped_map(earlier.model_dump(exclude_defaults=True))
    values |= {
        name: _plain(finding)
        for name, finding in (("best", earlier.best), ("last", earlier.last))
        if finding is not None
    }
    return f"{head}{comments}{_dumped(CommentedMap(values), indent + 2)}{text[at:]}"


@dataclass(frozen=True, slots=True)
class _Chunk:
    """One finding in the text: the comments above it begin at `above`, its lines at `start`."""

    above: int
    start: int
    end: int


def _chunks(text: str, sequence: Node) -> list[_Chunk]:
    chunks: list[_Chunk] = []
    for item in sequence.sequence or ():
        start = text.rfind("\n", 0, text.rfind("-", 0, item.place.start)) + 1
        above = chunks[-1].end if chunks else _remarks(text, start)
        chunks.append(_Chunk(above, start, _line_end(text, _content_end(item))))
    return chunks


def _reordered(
    text: str, chunks: Sequence[_Chunk], old: Sequence[Finding], wanted: Sequence[Finding]
) -> str:
    indent = text.index("-", chunks[0].start) - chunks[0].start
    known = {id(finding): chunk for finding, chunk in zip(old, chunks, strict=True)}
    remarks = {f.key: text[chunk.above : chunk.start] for f, chunk in zip(old, chunks, strict=True)}
    parts = [
        _closed(text[known[id(f)].above : known[id(f)].end])
        if id(f) in known
        else remarks.get(f.key, "") + _render([f], indent)
        for f in wanted
    ]
    return f"{text[: chunks[0].above]}{''.join(parts)}{text[chunks[-1].end :]}"


def _remarks(text: str, start: int) -> int:
    """Return where the comments begin that stand directly above the line at `start`."""
    while start:
        line = text.rfind("\n", 0, start - 1) + 1
        if not text[line:start].lstrip().startswith("#"):
            break
        start = line
    return start


def _content_end(node: Node) -> int:
    """Return the offset behind the node's last character, comments that follow not counted."""
    if node.is_scalar or node.flow:
        return node.place.end
    children = [*(node.mapping or {}).values(), *(node.sequence or ())]
    return max(map(_content_end, children), default=node.place.end)


def _line_end(text: str, offset: int) -> int:
    """Return the offset behind the line that holds the character before `offset`."""
    return text.find("\n", offset - 1) + 1 or len(text)


def _closed(text: str) -> str:
    return text if text.endswith("\n") or not text else f"{text}\n"


def _render(findings: Sequence[Finding], indent: int) -> str:
    """Return the findings as a block list whose dashes stand at column `indent`."""
    return _dumped([_plain(finding) for finding in findings], indent)


def _dumped(data: object, indent: int) -> str:
    stream = io.StringIO()
    writer = YAML(typ="rt", pure=True)
    writer.width = _WIDTH
    writer.representer.ignore_aliases = lambda _: True  # a card's reader refuses them
    writer.dump(data, stream)
    return re.sub(r"^(?=.)", " " * indent, stream.getvalue(), flags=re.MULTILINE)


def _plain(finding: Finding) -> CommentedMap:
    values = CommentedMap(_escaped_map(finding.model_dump(exclude_defaults=True)))
    if finding.ci is not None:
        values["ci"] = CommentedSeq(finding.ci)
        values["ci"].fa.set_flow_style()
    return values


def _escaped_map(values: Mapping[str, object]) -> dict[str, object]:
    return {key: _escaped(value) for key, value in values.items()}


def _escaped(value: object) -> object:
    """Mark strings with odd line ends or byte order marks for double quotes, where they are escaped.

    The emitter would write them as they are, and the parser then break the line there.
    """
    if isinstance(value, dict):
        return _escaped_map(value)
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    if isinstance(value, str) and not _UNESCAPED.isdisjoint(value):
        return DoubleQuotedScalarString(value)
    return value


def _repeats(finding: Finding, newer: Sequence[Finding]) -> bool:
    return any(_sort(finding) == _sort(other) for other in newer)


def _sort(finding: Finding) -> tuple[object, ...]:
    return (finding.stack, finding.model, finding.verdict, bool(finding.together))

"""Refining a card by what a run found, and the rule by which findings age.

A card is refined in place: only the block of findings changes, every other byte of the file
stays. All functions are pure.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from knowledge.cards import MAX_FINDINGS, CookbookCard, Finding
from knowledge.yamlfile import YamlError, loads
from knowledge.yamltree import Node, parse

FRESH_DAYS = 90  # older findings are tried again: drivers, servers and models have moved on
_WIDTH = 100
_UNESCAPED = frozenset("\x85\u2028\u2029\ufeff")


@dataclass(frozen=True, slots=True)
class Ground:
    """What a finding was made on, or would be made on today."""

    stack: str
    workload: str  # fingerprint of model and traffic shape
    hardware: str
    versions: Mapping[str, str]  # by tool name
    today: date


def still_counts(finding: Finding, ground: Ground) -> bool:
    """Whether `finding` says something about `ground`.

    It does on the same stack, workload and hardware, while no tool that both name has changed its
    major version, and for FRESH_DAYS days.
    """
    same = (finding.stack, finding.workload, finding.hardware) == (
        ground.stack,
        ground.workload,
        ground.hardware,
    )
    shared = finding.versions.keys() & ground.versions.keys()
    same_major = all(_major(finding.versions[n]) == _major(ground.versions[n]) for n in shared)
    return same and same_major and (ground.today - finding.date).days < FRESH_DAYS


def is_refuted(
    card: CookbookCard,
    *,
    model: str,
    stack: str,
    workload: str,
    hardware: str,
    versions: Mapping[str, str],
    today: date,
) -> str | None:
    """Return one line that says why the card is not worth trying again on `model`, or None.

    The newest finding that still counts decides, and only a rejection refutes: what was accepted
    and merged is no longer found in the code, and an inconclusive or failed try decided nothing.
    """
    ground = Ground(stack, workload, hardware, versions, today)
    decided = (
        f for f in card.findings if f.model in {"", model} and f.verdict in {"accepted", "rejected"}
    )
    newest = max(
        (f for f in decided if still_counts(f, ground)), key=lambda f: f.date, default=None
    )
    if newest is None or newest.verdict == "accepted":
        return None
    return f"{card.id}: rejected on {newest.date} at {newest.commit[:12]} ({newest.reason})"


def bounded(findings: Sequence[Finding], keep: Finding | None = None) -> list[Finding]:
    """Return `findings` newest first, one per stack, commit and model, at most MAX_FINDINGS.

    Of two with the same three the first in `findings` stays. Beyond the bound the
    oldest goes whose stack and verdict a newer one repeats, else the oldest; `keep` never goes.
    """
    unique: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        unique.setdefault((finding.stack, finding.commit, finding.model), finding)
    kept = sorted(unique.values(), key=lambda f: f.date, reverse=True)
    while len(kept) > MAX_FINDINGS:
        others = [i for i, f in enumerate(kept) if f is not keep]
        repeated = [i for i in others if _repeats(kept[i], kept[:i])]
        del kept[(repeated or others)[-1]]
    return kept


def merge_finding(text: str, finding: Finding, path: Path = Path("card.yaml")) -> str:
    """Return the text of a cookbook card with `finding` merged into its findings.

    It replaces an older finding of the same stack, commit and model. Raises YamlError (naming `path`)
    when the text is no valid card or cannot be edited in place.
    """
    card = loads(text, path, CookbookCard)
    wanted = bounded([finding, *card.findings], keep=finding)
    root = parse(text, path)
    if root.flow:
        raise YamlError(path, 1, 1, "cannot be refined in place", "write it in block style")
    newline = "\r\n" if "\r\n" in text else "\n"
    merged = _splice(text.replace("\r\n", "\n"), path, card.findings, wanted)
    merged = merged.replace("\n", newline)
    if loads(merged, path, CookbookCard) != card.model_copy(update={"findings": wanted}):
        raise YamlError(path, None, None, "cannot be refined in place", "simplify the findings")
    return merged


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
        above = chunks[-1].end if chunks else start  # what is above the first belongs to the list
        chunks.append(_Chunk(above, start, _line_end(text, _content_end(item))))
    return chunks


def _reordered(
    text: str, chunks: Sequence[_Chunk], old: Sequence[Finding], wanted: Sequence[Finding]
) -> str:
    indent = text.index("-", chunks[0].start) - chunks[0].start
    known = {id(finding): chunk for finding, chunk in zip(old, chunks, strict=True)}
    parts = [
        _closed(text[known[id(f)].above : known[id(f)].end])
        if id(f) in known
        else _render([f], indent)
        for f in wanted
    ]
    return f"{text[: chunks[0].start]}{''.join(parts)}{text[chunks[-1].end :]}"


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
    stream = io.StringIO()
    writer = YAML(typ="rt", pure=True)
    writer.width = _WIDTH
    writer.dump([_plain(finding) for finding in findings], stream)
    return re.sub(r"^(?=.)", " " * indent, stream.getvalue(), flags=re.MULTILINE)


def _plain(finding: Finding) -> CommentedMap:
    values = CommentedMap(
        {key: _escaped(value) for key, value in finding.model_dump(exclude_defaults=True).items()}
    )
    if finding.ci is not None:
        values["ci"] = CommentedSeq(finding.ci)
        values["ci"].fa.set_flow_style()
    return values


def _escaped(value: object) -> object:
    """Mark strings with odd line ends or byte order marks for double quotes, where they are escaped.

    The emitter would write them as they are, and the parser then break the line there.
    """
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, str) and not _UNESCAPED.isdisjoint(value):
        return DoubleQuotedScalarString(value)
    return value


def _repeats(finding: Finding, newer: Sequence[Finding]) -> bool:
    return any((finding.stack, finding.verdict) == (n.stack, n.verdict) for n in newer)


def _major(version: str) -> str:
    return version.lstrip("v").partition(".")[0]

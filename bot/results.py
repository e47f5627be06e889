"""The files that a command leaves for people and programs: data as JSON, and a page to read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from layers.errors import Missing, ToolFailed
from layers.evidence import EvidenceFile

if TYPE_CHECKING:
    from layers.evidence import Block, RunReport

OWN_FOLDER = ".fvec"


@contextmanager
def kept_out_of_git(out: Path) -> Iterator[None]:
    """Have git ignore results that land in our own folder inside somebody's checkout.

    A folder that ignores itself changes no file of the repository, which stays clean. Nothing is
    written for a run that leaves no results.
    """
    own = next((p for p in (out, *out.parents) if p.name == OWN_FOLDER), None)
    existed = own is not None and own.exists()
    if own is not None:
        _make(own)
        (own / ".gitignore").write_text("*\n")
    try:
        yield
    finally:
        if own is not None and not existed:
            _remove_if_unused(own)


def write(out: Path, report: RunReport) -> Mapping[str, Path]:
    """Write `run.json` and `report.html` under `out` and return their paths by name."""
    from bot.render import plots
    from bot.render import report as page

    _make(out)
    blocks = _blocks(report)
    files = {"run": out / "run.json", "report": out / "report.html"}
    links = {
        pull.number: Path(os.path.relpath(pull.body, out)).as_posix()
        for pull in report.pull_requests
        if pull.forge == "local"
    }
    html = page.render(report, blocks, plots.of_run(report, blocks), links)
    _replace(files["run"], report.model_dump_json(by_alias=True, indent=1) + "\n")
    _replace(files["report"], html)
    return files


def write_judgement(out: Path, name: str, document: BaseModel, body: str) -> Mapping[str, Path]:
    """Write `NAME.json` and `NAME.md` under `out` and return their paths by name."""
    _make(out)
    files = {"report": out / f"{name}.md", "data": out / f"{name}.json"}
    _replace(files["data"], document.model_dump_json(by_alias=True, indent=1) + "\n")
    _replace(files["report"], body)
    return files


def _blocks(report: RunReport) -> dict[int, Sequence[Block]]:
    """Read the blocks of accepted iterations back from the evidence of local pull requests."""
    found: dict[int, Sequence[Block]] = {}
    for pull in report.pull_requests:
        path = Path(pull.body).parent / "evidence.json"
        if pull.forge == "local" and path.is_file():
            evidence = EvidenceFile.model_validate_json(path.read_bytes())
            found[evidence.iteration.n] = evidence.blocks
    return found


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Missing(
            f"{folder} cannot be made: {error.strerror}",
            hint="name a folder that you may write to with --out DIR",
        ) from error


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise ToolFailed(
            f"{path} cannot be written: {error.strerror}",
            hint="the run itself is in its journal: when that is mended, `fvec run --resume` "
            "writes its report",
        ) from error


def _remove_if_unused(own: Path) -> None:
    if [path.name for path in own.iterdir()] == [".gitignore"]:
        (own / ".gitignore").unlink()
        own.rmdir()

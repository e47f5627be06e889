"""The files that a command leaves for people and programs: data as JSON, and a page to read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from layers.errors import InvalidInput, Location, Missing, ToolFailed
from layers.evidence import EvidenceFile
from layers.record import results_folder
from layers.redact import known_secrets, redact

if TYPE_CHECKING:
    from layers.evidence import Block, RunReport

OWN_FOLDER = ".fvec"
_IGNORE_ALL = "*\n"


@contextmanager
def kept_out_of_git(out: Path) -> Iterator[None]:
    """Have git ignore results that land in our own folder inside somebody's checkout.

    A folder that ignores itself changes no file of the repository, which stays clean. Nothing is
    written for a run that leaves no results. Raises InvalidInput, before anything is written, for
    a folder that `results_folder.check` refuses.
    """
    results_folder.check(out)
    own = next((p for p in (out, *out.parents) if p.name == OWN_FOLDER), None)
    existed = own is not None and own.exists()
    if own is not None:
        _ignore(own)
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
    _replace(files["run"], _without_secrets(report.model_dump_json(by_alias=True, indent=1)) + "\n")
    _replace(files["report"], _without_secrets(html))
    return files


def write_judgement(out: Path, name: str, document: BaseModel, body: str) -> Mapping[str, Path]:
    """Write `NAME.json` and `NAME.md` under `out` and return their paths by name."""
    _make(out)
    files = {"report": out / f"{name}.md", "data": out / f"{name}.json"}
    _replace(
        files["data"], _without_secrets(document.model_dump_json(by_alias=True, indent=1)) + "\n"
    )
    _replace(files["report"], _without_secrets(body))
    return files


def _without_secrets(text: str) -> str:
    """Return a file's text as it may leave this machine: JSON stays JSON, a page a page."""
    return redact(text, known_secrets(os.environ))


def _blocks(report: RunReport) -> dict[int, Sequence[Block]]:
    """Read the blocks of accepted iterations back from the evidence of local pull requests."""
    found: dict[int, Sequence[Block]] = {}
    for pull in report.pull_requests:
        path = Path(pull.body).parent / "evidence.json"
        if pull.forge == "local" and path.is_file():
            evidence = EvidenceFile.model_validate_json(path.read_bytes())
            found[evidence.iteration.n] = evidence.blocks
    return found


def _ignore(own: Path) -> None:
    """Have a folder ignore itself; never through a link, or over what git tracks."""
    file = own / ".gitignore"
    if file.is_symlink() or results_folder.tracked(own, file.name):
        raise InvalidInput(
            "is a link, or tracked by git: it came with the repository",
            at=Location(file),
            hint="name a folder outside the checkout with --out DIR, or remove it there",
        )
    _make(own)
    if not file.is_file() or file.read_bytes() != _IGNORE_ALL.encode():
        _replace(file, _IGNORE_ALL)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Missing(
            f"{folder} cannot be made: {error.strerror}",
            hint="name a folder that you may write to with --out DIR",
        ) from error


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all, and through no link."""
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.unlink(missing_ok=True)  # of a killed command
        with beside.open("x", encoding="utf-8") as file:  # exclusive: follows no link
            file.write(text)
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

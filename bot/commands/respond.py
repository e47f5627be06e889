"""`fvec respond`: one event of GitHub Actions, answered without a service.

fvec respond --plan --event FILE --name EVENT [--repository OWNER/NAME] [--out DIR] [--shards N]
    For the job that decides; reads GitHub only. FILE is $GITHUB_EVENT_PATH by default, EVENT
    $GITHUB_EVENT_NAME, OWNER/NAME $GITHUB_REPOSITORY. Appends to the file $GITHUB_OUTPUT:
        kind     none | said | refused | analyse | recreate | rerun | judge | help | onboard | freshen
        command  none | run | verify | judge: what the measuring job has to run
        sha      the commit that it checks out, of this repository always; or empty
        number   of the pull request, or empty
        layers   comma-separated, or empty for those of the manifest
        class    change class of `judge`, or empty
        matrix   the jobs that measure, as `fvec plan --matrix` prints them; or empty
        job      one line of JSON, for the environment of the commands below: FVEC_JOB; empty where
                 nothing is left to be done
    Writes to DIR what is measured: evidence.json and patch.diff (verify), patch.diff (judge).
fvec respond --heard
    For the job that says that the job in FVEC_JOB is measured now: a reaction to the comment, and a
    check run in progress that links to the workflow's run.
fvec respond --report [RESULTS...] [--bundle FILE]... [--stack CHECKOUT]
    For the job that writes; the job is in FVEC_JOB. RESULTS are the folders that measuring jobs
    left, with a bundle of branches beside each that ran `fvec run`; none where nothing was
    measured. The folder around RESULTS is called by the job of the matrix, fvec-measured-NAME. In
    place of a report RESULTS may hold error.json: what a command that ended by an error printed
    with --json.
fvec respond --dropped
    For after it: where --heard was said and nothing came of it, so is that.
fvec respond --event FILE --name EVENT [--dry-run]
    All of it here. --dry-run reads GitHub only, and prints what would be measured and written.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bot.commands import arguments, engine
from bot.commands.outcome import Outcome
from layers.errors import InvalidInput, Missing

if TYPE_CHECKING:
    from bot.jobs.actions import Place, Planned
    from bot.jobs.context import JobResult
    from bot.wake.events import Event
    from bot.wake.policy import Decision

SCHEMA = "fvec.respond/1"
_load = partial(
    engine.load,
    extras="engine,service",
    told="the package {!r} is needed, which is not installed",
)
FAILED = 70


def add(commands: arguments.Commands) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "respond", help="answer one event of GitHub Actions: decide, measure, report"
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--plan", action="store_true", help="decide, and say what is to be measured; reads only"
    )
    mode.add_argument(
        "--heard", action="store_true", help="say that the job in $FVEC_JOB is measured now"
    )
    mode.add_argument(
        "--dropped",
        action="store_true",
        help="say that nothing came of the job in $FVEC_JOB, unless something did",
    )
    mode.add_argument(
        "--report",
        metavar="RESULTS",
        type=Path,
        nargs="*",
        help="do the rest of the job in $FVEC_JOB, with what measuring jobs left",
    )
    mode.add_argument(
        "--dry-run", action="store_true", help="say what would be measured and written; reads only"
    )
    _add_event(parser)
    parser.add_argument(
        "--out", metavar="DIR", type=Path, help="with --plan: where the measuring job's input goes"
    )
    parser.add_argument(
        "--shards",
        metavar="N",
        type=arguments.shards,
        default=0,
        help="with --plan: jobs for each layer of a run, as `fvec plan --matrix` shares it out, or "
        "one for all of it where that cannot be done (default: 0, one)",
    )
    parser.add_argument(
        "--bundle",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="with --report: a git bundle of branches, beside its RESULTS; may be repeated",
    )
    parser.add_argument(
        "--stack",
        metavar="CHECKOUT",
        type=Path,
        help="with --report: a checkout with the repository's history (default: one is made)",
    )
    arguments.add_json(parser)
    parser.set_defaults(handler=run)


def _add_event(parser: argparse.ArgumentParser) -> None:
    """Add what says which event of which repository, and where to work."""
    parser.add_argument(
        "--event", metavar="FILE", type=Path, help="its payload (default: $GITHUB_EVENT_PATH)"
    )
    parser.add_argument("--name", metavar="EVENT", help="its name (default: $GITHUB_EVENT_NAME)")
    parser.add_argument(
        "--repository", metavar="OWNER/NAME", help="at GitHub (default: $GITHUB_REPOSITORY)"
    )
    parser.add_argument(
        "--work",
        metavar="DIR",
        type=Path,
        help="keep clones and unfinished jobs here (default: a folder that is removed)",
    )


def run(args: argparse.Namespace) -> Outcome:
    """Answer the event; the exit code is 70 where the job failed, else 0.

    Raises InvalidInput, Missing and GitHubError.
    """
    actions = _load("bot.jobs.actions")
    from bot.progress import shown_on

    with _folder(args.work) as work, shown_on(sys.stderr) as progress:
        place: Place = actions.open_place(os.environ, args.repository, work, progress)
        order = os.environ.get("FVEC_JOB", "")
        if args.heard or args.dropped:
            say = actions.heard if args.heard else actions.dropped
            return _ended({}, say(place, order))
        if args.report is not None:
            result = actions.report(place, order, args.report, args.bundle, args.stack)
            return _ended({}, result)
        event = _event(actions, args, place)
        if args.plan:
            planned = actions.plan(place, event, args.out, args.shards)
            _write_outputs(planned.outputs(), os.environ)
            return _planned(planned)
        if args.dry_run:
            planned, writes = actions.rehearse(place, event)
            return _planned(planned, writes)
        decision, done = actions.respond(place, event)
        return _ended(_told(decision), done)


def _event(actions: ModuleType, args: argparse.Namespace, place: Place) -> Event | None:
    path = args.event or os.environ.get("GITHUB_EVENT_PATH")
    name = args.name or os.environ.get("GITHUB_EVENT_NAME")
    if not path or not name:
        raise Missing("no event is named", hint="--event FILE --name EVENT, outside of a workflow")
    event: Event | None = actions.read_event(Path(path), name, place.repository.full_name)
    return event


@contextmanager
def _folder(work: Path | None) -> Iterator[Path]:
    """Yield the folder to work in; one of our own is removed afterwards."""
    if work is not None:
        work.mkdir(parents=True, exist_ok=True)
        yield work.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="fvec-respond-") as folder:
        yield Path(folder).resolve()


def _write_outputs(outputs: Mapping[str, str], environ: Mapping[str, str]) -> None:
    """Append the outputs of a workflow's step to its file, where there is one."""
    broken = [name for name, value in outputs.items() if "\n" in value or "\r" in value]
    if broken:
        raise InvalidInput(f"the output {broken[0]} would have more than one line")
    file = environ.get("GITHUB_OUTPUT")
    if file:
        with Path(file).open("a", encoding="utf-8") as stream:
            stream.writelines(f"{name}={value}\n" for name, value in outputs.items())


def _planned(planned: Planned, writes: list[dict[str, Any]] | None = None) -> Outcome:
    """Show a plan; of a rehearsal with the writes that would follow."""
    outputs = planned.outputs()
    document = {
        "schema": SCHEMA,
        **_told(planned.decision),
        **{name: outputs[name] for name in ("kind", "command", "sha", "number", "layers")},
        "class": outputs["class"],
        "unprepared": planned.unprepared,
    }
    lines = [f"{outputs['kind']}: {planned.decision.why}"]
    if planned.unprepared:
        lines.append(f"nothing is measured: {planned.unprepared}")
    elif planned.wanted is not None:
        lines.append(f"measures: fvec {outputs['command']} at {outputs['sha']}")
    for write in writes or ():
        shown = ", ".join(f"{k} {v}" for k, v in write.items() if k not in ("write", "body"))
        lines.append(f"would write: {write['write']}: {shown}")
    if writes is not None:
        document["writes"] = writes
    return _outcome(document, lines, 0)


def _ended(document: Mapping[str, Any], result: JobResult | None) -> Outcome:
    if result is None:
        return _outcome({"schema": SCHEMA, **document}, [f"nothing to do: {document['why']}"], 0)
    told = {"state": result.state, "summary": result.summary, "hint": result.hint}
    lines = [f"{result.state}: {result.summary}", *([result.hint] if result.hint else [])]
    code = FAILED if result.state == "failed" else 0
    return _outcome({"schema": SCHEMA, **document, "result": told}, lines, code)


def _told(decision: Decision) -> dict[str, Any]:
    return {"decision": type(decision).__name__.lower(), "why": decision.why}


def _outcome(document: Mapping[str, Any], lines: list[str], code: int) -> Outcome:
    from rich.text import Text

    from bot.render.text import one_line

    return Outcome(document, Text("\n".join(one_line(line, 400) for line in lines)), code)

"""The proposers of a run, opened once its stack and its cards are: who is asked besides the cookbook."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from knowledge.store import Cards
from knowledge.yamlfile import YamlError
from layers.agent_settings import BudgetSection
from layers.agents.desk import Notebook, secrets_of
from layers.agents.memory import kept
from layers.agents.proposer import build
from layers.agents.service.budget import Purse
from layers.agents.service.transcripts import Transcripts
from layers.base import COOKBOOK, LayerName
from layers.errors import InvalidInput, Location
from layers.loop.instruments import Instruments, Live
from layers.loop.proposing import Proposer
from layers.manifest import MANIFEST_PATH, Manifest, SandboxMode
from layers.record.results_folder import LEDGER, TRANSCRIPTS
from layers.sandbox.box import Sandbox
from layers.session import RunOptions
from layers.shards import Shard


def open_proposers(
    instruments: Instruments, options: RunOptions, known: Cards, tip: str | None
) -> Sequence[Proposer]:
    """Return the proposers of `options`, in order: they share one purse, one memory, one folder.

    `tip` is the commit of the knowledge branch that the run started with. Raises InvalidInput for
    settings or a memory that cannot be used, Missing where something is not installed.
    """
    names = [name for name in options.proposers if name != COOKBOOK]
    if not names:
        return ()
    if options.agents is None:
        raise InvalidInput(f"nothing configures {', '.join(names)}", hint="--agents FILE does")
    if instruments.stack.manifest.sandbox.mode is SandboxMode.PROCESS:
        raise InvalidInput(
            "sandbox.mode is process, which judges only code that you trust: not an agent's",
            at=Location(Path(MANIFEST_PATH)),
            hint="sandbox: {mode: strict}",
        )
    settings, environ = options.agents.settings, options.agents.environ
    stack, folder = instruments.stack, instruments.out / TRANSCRIPTS
    try:
        memory = kept.load(stack, instruments.out, tip)
    except YamlError as error:
        raise InvalidInput(str(error), hint="mend the memory, or remove it") from error
    book = Notebook(memory, memory)
    wanted = options.layers
    layers = [one for one in stack.manifest.layers if wanted is None or one in wanted]
    share = shard_share(options.shard, stack.manifest, layers)
    purse = Purse(folder / LEDGER, shared_out(settings.budget, share))
    transcripts = Transcripts(folder, secrets_of(settings, environ))
    sandbox = _sandbox(instruments)
    return [
        build(
            settings,
            name,
            stack=stack,
            cards=known,
            memory=book,
            out=instruments.out,
            sandbox=sandbox,
            environ=environ,
            purse=purse,
            transcripts=transcripts,
            layers=layers,
            run=instruments.run_id,
        )
        for name in names
    ]


def _sandbox(instruments: Instruments) -> Sandbox:
    """Return the sandbox of the run: the one that its session has proven, where it has a session."""
    if isinstance(instruments, Live):
        return instruments.session.sandbox
    return Sandbox.open(instruments.stack.manifest.sandbox)


def shard_share(shard: Shard | None, manifest: Manifest, own: Collection[LayerName]) -> float:
    """Return the part of a run that its shard is, by the candidates that it may try.

    `own` are the layers of this runner's part. All parts of a run are one run together.
    """
    if shard is None:
        return 1.0
    candidates = manifest.budget.candidates
    return shard.allowance(candidates, manifest.layers, own) / candidates


def shared_out(budget: BudgetSection, share: float) -> BudgetSection:
    """Return what a part of a run may spend: each runner has a ledger of its own."""
    return budget.model_copy(
        update={
            "usd": None if budget.usd is None else budget.usd * share,
            "tokens": int(budget.tokens * share),
            "minutes": budget.minutes * share,
        }
    )

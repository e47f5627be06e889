"""`fvec` as it is installed, but that nothing is measured: a run is replayed from a recording.

`verify` finds again what was recorded; `judge` lacks something on this machine. The arguments, the
results folders, git and everything that talks to GitHub are the product's own.
"""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bot import cli

TRIED = {"lookups-one-pass", "native-string-tensors", "dynamic-batching"}


def main(argv: Sequence[str]) -> int:
    """Run one command."""
    replace = {"run": _replay, "verify": _verify, "judge": _judge, "respond": _hurry}
    if argv and argv[0] in replace:
        replace[argv[0]]()
    return cli.main(argv)


def _hurry() -> None:
    from bot.github.client import connect
    from bot.jobs import actions

    actions.connect = partial(connect, throttle=False)  # the pauses that GitHub asks for


def _replay() -> None:
    from layers import registry
    from layers.loop import instruments
    from tests.survival.replay import Recording, Remembered, opener

    class OfRecorded(Remembered):
        """A layer that knows the cards alone that the recorded run tried."""

        def diagnose(self, hotspots, stack, cards):
            return super().diagnose(hotspots, stack, [c for c in cards if c.id in TRIED])

        def refusals(self, stack, cards):
            return []

    instruments.open_live = opener(Recording.read())
    registry.LAYERS.update({name: OfRecorded(layer) for name, layer in registry.LAYERS.items()})


def _verify() -> None:
    from layers import reverify
    from layers.evidence import JudgeReport, Verdict, VerifyReport

    def again(path: Path, *_: object) -> VerifyReport:
        found = reverify.load(path).evidence
        iteration = found.iteration
        judged = JudgeReport(
            target="patch",
            subject=f"patch.diff on {found.stack.name}",
            change_class=iteration.hypothesis.change_class,
            verdict=iteration.verdict,
            reason=iteration.reason,
            gates=iteration.gates,
            equivalence=iteration.equivalence,
            noise=found.noise,
            looks=iteration.looks,
            pairs=iteration.pairs,
            confirm=iteration.confirm,
            end_to_end=iteration.end_to_end,
            load_test=iteration.load_test,
            stack=found.stack,
            environment=found.environment,
            seed=found.seed,
            patch_sha256=iteration.patch_sha256,
            files_changed=iteration.files_changed,
            blocks=found.blocks,
            wall_s=1.0,
        )
        return VerifyReport(
            evidence=f"run {found.run_id}, {iteration.branch}",
            verdict=Verdict.ACCEPTED,
            reason="reproduced",
            recorded=iteration.end_to_end,
            again=iteration.end_to_end,
            difference=1.0,
            difference_ci=(0.98, 1.02),
            judged=judged,
        )

    reverify.verify_evidence = again


def _judge() -> None:
    from layers import judge
    from layers.errors import Missing

    def absent(*_: object) -> None:
        raise Missing("no accelerator of this kind", hint="take a runner that has one")

    judge.judge_patch = absent


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

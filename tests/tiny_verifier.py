"""The real verifier on the tiny stack with its slow idiom, its noise set by decree: quick to open.

Servers, builds, sandbox, profiler and comparisons are real; blocks are short, and no calibration
is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bot.publishing.local import open_local
from layers import session
from layers.base import Candidate, ChangeClass, Contract, Edit, Hypothesis, LayerName
from layers.events import Silent
from layers.evidence import Iteration, NoiseFloor, Verdict
from layers.loop.wiring import verifier_of
from layers.measure import launch, stats
from layers.measure.checks import Limits
from layers.session import RunOptions, Session, open_session, settled
from layers.trial import calibrate, equivalence, integrity, verify
from layers.trial.trial import TrialEnded
from layers.trial.verify import Verifier
from tests.e2e.proposals import Proposals, slow_repository
from tests.undecided import skip_if_undecided

# The machine of the tests is not quiet, and nothing here is about that.
LAX = Limits(neighbour_cores=1e3, generator_cores=1e3, lag_floor_ms=1e9, achieved_share=0.0)
NOISE = NoiseFloor(
    floor_pct=5.0, pair_sd_pct=2.0, pairs=8, launches=2, launch_differences_pct=[0.5, -0.5]
)
MODEL = "tiny_features"
LAYER = Proposals({})  # takes no local gain of its own


@dataclass
class Tiny:
    """The open stack, and what judges it."""

    session: Session
    verifier: Verifier
    made: int = 0  # candidates

    def text(self, path: str) -> str:
        """Return a file of the unmodified stack."""
        return (self.session.view.root / path).read_text()

    def candidate(
        self,
        files: Mapping[str, str | bytes | None],
        contract: Contract | None = None,
        change_class: ChangeClass = ChangeClass.EXACT,
    ) -> Candidate:
        """Commit new contents of files as a candidate; an agent's if it comes with a contract."""
        self.made += 1
        base, branch = self.session.view.commit, f"fvec/test/{self.made}"
        data = {
            name: content.encode() if isinstance(content, str) else content
            for name, content in files.items()
        }
        edit = Edit(data, "Change the stack", "The test says so.")
        commit, patch, worktree = self.session.stack.commit_edit(
            base, branch, edit, self.session.out / "worktrees"
        )
        config = change_class is ChangeClass.CONFIG
        hypothesis = Hypothesis(
            layer=LayerName.CONFIG if config else LayerName.FEATURES,
            card="written",
            model=MODEL,
            title="Change the stack",
            why="the test says so",
            share=1.0,
            expected_gain=0.5,
            best_gain=0.9,
            change_class=change_class,
            transform="written",
            proposer="command" if contract else "cookbook",
            contract=contract,
        )
        return Candidate(hypothesis, edit, branch, base, commit, worktree, patch)

    def judged(self, candidate: Candidate) -> Iteration:
        """Return the verdict on a candidate, and all that led to it."""
        return self.verifier.verify(candidate, LAYER, self.session.view, self.made)

    def decided(self, candidate: Candidate) -> Iteration:
        """Return the verdict; skip the test where the machine left the candidate undecided."""
        found = self.judged(candidate)
        skip_if_undecided(found.reason, found.detail)
        return found


def end_before_timing(patch: pytest.MonkeyPatch) -> None:
    """Have every trial end undecided, as `not_timed_here`, where its first launch would be timed."""

    def timed(*_: object) -> None:
        raise TrialEnded(Verdict.INCONCLUSIVE, "not_timed_here")

    patch.setattr(Verifier, "_measure", timed)


@contextmanager
def tiny_verifier(
    folder: Path,
    change: Callable[[Path], object] = lambda root: None,
    *,
    mutated: int = equivalence.MUTATED,
    reproducible: frozenset[str] = frozenset({"score"}),
) -> Iterator[Tiny]:
    """Open the tiny stack with its slow idiom, everything short.

    `change` may commit more to the repository first; a trial asks `mutated` changed requests, and the
    stack is taken to repeat the outputs `reproducible`.
    """
    root = slow_repository(folder / "tiny")
    change(root)
    options = RunOptions(folder / "out", None, None, 1, None, open_local)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "SLO_REQUESTS", 60)
        patch.setattr(session, "BLOCK_S", 0.3)
        patch.setattr(session, "PROFILE_S", 2.0)
        patch.setattr(equivalence, "RECORDED", 30)
        patch.setattr(equivalence, "MUTATED", mutated)
        patch.setattr(verify, "CONFIRMING", 2)
        # A developer may edit the engine while its tests run; test_integrity watches that part.
        patch.setattr(integrity, "ENGINE", folder / "not-there")
        patch.setattr(launch, "Limits", lambda: LAX)
        patch.setattr(launch, "RECORDED_LIMITS", LAX)
        with open_session(root, options, Silent(), lambda block: None) as opened:
            with settled(opened) as (sized, deployment):
                sized = calibrate._equipped(sized, deployment)
            calibration = calibrate.Calibration(
                session=sized,
                profile=None,
                work=NOISE,
                reproducible=reproducible,
                launch_s=1.0,
            )
            plan = stats.LookPlan(candidates=1)
            yield Tiny(sized, verifier_of(calibration, plan, lambda look: None))

"""The rate held at the SLO: windows of open-loop load at rates chosen where they tell most.

At the rate held, one request in a hundred takes longer than the SLO: p99 is at it. Short windows
see that through noise, so no window decides anything: each moves the distribution of its arm's
rate (`share_model`), and the next one is placed near its middle. Arms take turns, in random order
inside a round, so that a drift of the machine meets both.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from layers.errors import Inconclusive
from layers.evidence import Block, SustainedArm
from layers.measure.blocks import BlockContext, Deployment, exponential_arrivals, rate_block
from layers.measure.checks import VoidReason
from layers.measure.fresh import RequestSet
from layers.measure.load import LoadGenerator, LoadResult
from layers.measure.share_model import RateEstimate, ShareModel, Window, ratio

# Shares over the SLO at which windows are placed, in turn: around the one that is asked for. Above
# it a window holds more late requests to count, at it the answer rests less on the model's shape.
TARGET_SHARES = (0.03, 0.01, 0.06)
MIN_REQUESTS = 60  # of one window, whatever its rate; the least that `checks.Limits` accepts
LOST_SHARE = 0.2  # an arm without a window below this was never near its SLO
START_SHARE_OF_WORK_RATE = 0.7  # where a caller that knows only the work rate may begin

RunWindow: TypeAlias = Callable[[float, int], Window]  # (requests per second, requests)
# What orders count in: a set of requests, or the recording.
Sent: TypeAlias = tuple[NDArray[np.int64], RequestSet | None]
Sending: TypeAlias = Callable[[NDArray[np.int64]], AbstractContextManager[Sent]]


@dataclass(frozen=True, slots=True)
class Budget:
    """How much a search may measure."""

    windows: int = 12  # per arm; void ones are measured again, at most half as many
    window_s: float = 5.5

    def requests(self, rate: float) -> int:
        """Return the number of requests of a window at this rate."""
        return max(MIN_REQUESTS, round(rate * self.window_s))


@dataclass(frozen=True, slots=True)
class Sustained:
    """What a search found: each arm's rate at the SLO, and the windows that say so."""

    arms: Mapping[str, SustainedArm]
    windows: Mapping[str, Sequence[Window]]  # in order, void ones included
    models: Mapping[str, ShareModel]

    def ratio(self, numerator: str, denominator: str) -> RateEstimate:
        """Return the ratio of two arms' rates with its 95 % interval."""
        return ratio(self.models[numerator], self.models[denominator])


def search(
    arms: Mapping[str, RunWindow],
    start_rates: Mapping[str, float],
    budget: Budget,
    rng: np.random.Generator,
) -> Sustained:
    """Search every arm's rate at the SLO, one window of each arm in a round.

    `start_rates` is a guess for each arm in requests per second, right within a factor of 2 or so.
    A void window is dropped and measured again. Raises Inconclusive when too many are void, or when
    an arm's rate stays beyond what its windows reach (a baseline that misses its own SLO).
    """
    models = {name: ShareModel(start_rates[name]) for name in arms}
    windows: dict[str, list[Window]] = {name: [] for name in arms}
    for turn in range(budget.windows):
        target = TARGET_SHARES[turn % len(TARGET_SHARES)]
        for name in rng.permutation(sorted(arms)).tolist():
            rate = models[name].rate_for(target)
            window = _valid_window(arms[name], rate, budget, windows[name])
            models[name].update(window)
    found = {name: _arm(name, models[name], windows[name]) for name in arms}
    return Sustained(found, windows, models)


@contextmanager
def as_recorded(order: NDArray[np.int64]) -> Iterator[Sent]:
    """Yield an order of the recording's own requests."""
    yield order, None


def served(
    deployment: Deployment,
    load: LoadGenerator,
    slo_ms: float,
    context: BlockContext,
    rng: np.random.Generator,
    on_block: Callable[[Block, LoadResult], None],
    sending: Sending = as_recorded,
) -> RunWindow:
    """Return what runs one window on a deployment: exponential arrivals, requests in random order.

    `on_block` takes every block with its responses (journal, verification); its `pair` counts the
    windows of this arm from the context's own. `sending` gives what is sent for an order.
    """
    numbers = itertools.count(context.pair)
    known = len(load.traffic.requests)

    def run(rate: float, requests: int) -> Window:
        order = np.resize(rng.permutation(known), requests).astype(np.int64)
        arrivals_s = exponential_arrivals(rng, rate, requests)
        with sending(order) as (sent, drawn):
            place = replace(context, pair=next(numbers), requests=drawn, idle=None)
            block, result = rate_block(
                deployment, load, sent, arrivals_s, slo_ms, place, measure="sustained"
            )
        on_block(block, result)
        return window_of(block)

    return run


def window_of(block: Block) -> Window:
    """Return a rate block as a window of the search.

    Errors and falling behind do not void it: they are requests over the SLO, which is what a rate
    that is too high looks like. Short outputs and whatever lies with the machine do.
    """
    stack_faults = {VoidReason.ERRORS, VoidReason.BEHIND_OFFERED}
    void = None if block.void in stack_faults else block.void
    return Window(
        rate=block.offered or 0.0,
        requests=block.requests,
        over=block.over_slo or 0,
        void=void,
    )


def _valid_window(run: RunWindow, rate: float, budget: Budget, windows: list[Window]) -> Window:
    """Run a window until it is not void; keep all; Inconclusive when too many of an arm are void."""
    while True:
        window = run(rate, budget.requests(rate))
        windows.append(window)
        if window.void is None:
            return window
        void = sum(1 for seen in windows if seen.void)
        if void > max(2, budget.windows // 2):
            raise Inconclusive(
                f"{void} windows of the search at the SLO were void; the last: {window.void}",
                hint="run on a quieter machine, or pin the server with server.cpus",
            )


def _arm(name: str, model: ShareModel, windows: Sequence[Window]) -> SustainedArm:
    """Sum up one arm; Inconclusive if its windows were all on one side of the rate."""
    valid = [window for window in windows if window.void is None]
    if min(window.over / window.requests for window in valid) > LOST_SHARE:
        lowest = min(window.rate for window in valid)
        raise Inconclusive(
            f"{name} misses the SLO at every rate tried, down to {lowest:.3g} requests/s",
            hint="compare slo.p99_ms with the latency of the unloaded stack",
        )
    if not any(window.over for window in valid):
        highest = max(window.rate for window in valid)
        raise Inconclusive(
            f"{name} holds the SLO at every rate tried, up to {highest:.3g} requests/s",
            hint="start the search from the measured work rate, or with more windows",
        )
    estimate = model.estimate()
    return SustainedArm(
        rate=estimate.rate,
        ci=estimate.ci,
        windows=len(valid),
        void_windows=len(windows) - len(valid),
    )

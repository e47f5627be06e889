"""Work blocks of a candidate so fast that the load generator is what bounds them.

Its rate is then a lower bound: it decides for the candidate as it stands, and never against it. Of
a baseline such a block is void: it would make any candidate's ratio too large.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from layers.evidence import Block, Pair
from layers.measure import conduct
from layers.measure.blocks import BlockContext, Deployment, work_block
from layers.measure.load import LoadGenerator, LoadResult

AT_LEAST = (
    "the load generator was the limit in blocks of the candidate: its gain is at least what is said"
)


def work(
    deployment: Deployment,
    load: LoadGenerator,
    order: NDArray[np.int64],
    in_flight: int,
    context: BlockContext,
) -> tuple[Block, LoadResult]:
    """Measure a work block, see `blocks.work_block`; mark one of a candidate that is a lower bound."""
    if context.arm == "baseline":
        return work_block(deployment, load, order, in_flight, context)
    limits = context.limits
    free = replace(context, limits=replace(limits, generator_cores=math.inf))
    block, result = work_block(deployment, load, order, in_flight, free)
    bound = block.void is None and block.generator_cpu > limits.generator_cores
    return block.model_copy(update={"at_least": bound}), result


def ratios(blocks: Mapping[Literal["baseline", "candidate"], Block]) -> Pair:
    """Return the ratios of a pair, see `conduct.ratios`, marked where they are lower bounds."""
    at_least = blocks["candidate"].at_least
    return conduct.ratios(blocks).model_copy(update={"at_least": at_least})


def any_bound(pairs: Sequence[Pair]) -> bool:
    """Whether a pair says less of the candidate than it can do."""
    return any(pair.at_least for pair in pairs)

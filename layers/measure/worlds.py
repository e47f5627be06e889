"""Simulated machines: blocks of two arms under what real machines do to them. Pure and seeded.

All values are natural logs of rates; "5 % slow" is a log rate lower by 0.05. Blocks are drawn in
the order of time, as a machine disturbs whatever runs at that moment, and then given to arms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Shape: TypeAlias = tuple[int, ...]

T3_SD = 3**0.5  # standard deviation of Student's t with three degrees of freedom
OUTLIER = (0.05, 0.20)  # how much slower an outlying block is
NEIGHBOUR = (0.05, 0.15)  # how much slower the blocks beside a noisy neighbour are
STALL = 0.20  # how much slower a block is in which the candidate itself stalls


TWO_STATES = "launches in two states, 2 %"  # a start is one of two, and eight launches are few


@dataclass(frozen=True, slots=True)
class World:
    """What is true in a simulation; standard deviations are of log ratios, candidate over baseline.

    The defaults are the model of `layers.measure.stats`; every further field breaks it in one way.
    """

    ratio: float  # true throughput ratio of every candidate, its own stalls left out
    pair_sd: float
    launch_sd: float
    noise_launches: int  # A/A launches that the run calibrates on
    pair_tails: Literal["normal", "t3"] = "normal"
    launch_shape: Literal["normal", "t3", "two_states"] = "normal"
    drift_sd: float = 0.0  # change of the log rate from block to block, one slope a launch
    machine_memory: float = 0.0  # AR(1) coefficient from block to block in time
    arm_memory: float = 0.0  # AR(1) coefficient from pair to pair of one arm
    outliers: float = 0.0  # share of launches in which one block is an outlier
    neighbour: float = 0.0  # share of blocks at which a spell of two disturbed blocks begins
    quantum: float = 0.0  # step in which rates are read
    second_in_pair: float = 0.0  # how much faster the second block of a pair is
    second_started: float = 0.0  # how much faster the server is that starts second
    balanced_starts: bool = False  # False: who starts second is drawn; True: drawn, then opposite
    stalls: float = 0.0  # share of its blocks in which the candidate itself stalls
    kinds: float = 0.0  # how far its starts of one kind lie above those of the other, half of each


def _named() -> dict[str, World]:
    """Return worlds without effect, by what is wrong in them; two A/A launches as in a run."""
    usual = World(1.0, pair_sd=0.02, launch_sd=0.005, noise_launches=2)
    quiet = replace(usual, pair_sd=0.006)
    shifts = {
        f"launches shift by {100 * sd:.3g} %, {name}": replace(world, launch_sd=sd)
        for sd in (0.005, 0.01, 0.015, 0.02)
        for name, world in (("pairs 2 %", usual), ("pairs 0.6 %", quiet))
    }
    second = replace(quiet, second_started=0.015)
    return shifts | {
        "heavy-tailed pairs (t3)": replace(usual, pair_tails="t3"),
        "heavy-tailed launches (t3) of 1 %": replace(quiet, launch_sd=0.01, launch_shape="t3"),
        "heavy-tailed launches (t3) of 1.5 %": replace(quiet, launch_sd=0.015, launch_shape="t3"),
        "launches in two states, 1 %": replace(quiet, launch_sd=0.01, launch_shape="two_states"),
        TWO_STATES: replace(quiet, launch_sd=0.02, launch_shape="two_states"),
        "drift of 1 % from block to block": replace(usual, drift_sd=0.01),
        "machine remembers, AR(1) 0.8": replace(usual, machine_memory=0.8),
        "arms remember, AR(1) 0.8": replace(usual, arm_memory=0.8),
        "an outlying block in 30 % of launches": replace(usual, outliers=0.3),
        "the same, pairs 0.6 %": replace(quiet, outliers=0.3),
        "a noisy neighbour at a fifth of blocks": replace(usual, neighbour=0.1),
        "ties: rates in steps of 2 %": replace(quiet, quantum=0.02),
        "second block of a pair 2 % faster": replace(usual, second_in_pair=0.02),
        "second server 1.5 % faster, order drawn": second,
        "the same, orders balanced": replace(second, balanced_starts=True),
    }


WITHOUT_EFFECT = _named()


def paired(world: World, rng: np.random.Generator, shape: Shape, pairs: int) -> Floats:
    """Return log ratios without effect, float64[*shape, pairs], of `shape` launches.

    Both arms of a launch run side by side, the order inside each pair drawn at random.
    """
    blocks = _machine(world, rng, (*shape, 2 * pairs)).reshape(*shape, pairs, 2)
    blocks[..., 1] += world.second_in_pair
    order = rng.integers(0, 2, (*shape, pairs, 1))
    arms = np.take_along_axis(blocks, np.concatenate([order, 1 - order], axis=-1), axis=-1)
    if world.arm_memory:
        own = _noise(world, rng, (*shape, 2, pairs), world.arm_memory)
        arms = arms + np.swapaxes(own, -1, -2)
    starts = _starts(world, rng, (*shape, 2))
    starts[..., 1] += world.second_started * _signs(rng, shape, balanced=world.balanced_starts)
    arms = _read(world, rng, arms + starts[..., None, :])
    return np.asarray(arms[..., 1] - arms[..., 0], dtype=np.float64)


def sequential(world: World, rng: np.random.Generator, shape: Shape, blocks: int) -> Floats:
    """Return log rates without effect, float64[*shape, 2, blocks]: all of A, then all of B.

    Each arm has a launch of its own; a drift of the machine goes on from one to the other.
    """
    memory = max(world.machine_memory, world.arm_memory)
    calm = replace(world, machine_memory=memory, arm_memory=0.0)
    arms = _machine(calm, rng, (*shape, 2 * blocks)).reshape(*shape, 2, blocks)
    return _read(world, rng, arms + _starts(world, rng, (*shape, 2))[..., None])


def stalled(world: World, rng: np.random.Generator, log_ratios: Floats) -> Floats:
    """Return the log ratios with the candidate's own stalls in them."""
    if not world.stalls:
        return log_ratios
    hit = rng.random(log_ratios.shape) < world.stalls
    return np.asarray(log_ratios - STALL * hit, dtype=np.float64)


def kinds(world: World, rng: np.random.Generator, shape: Shape) -> Floats:
    """Return what the kind of each start of the candidate does: half of them above, half below."""
    if not world.kinds:
        return np.zeros(shape)
    return np.asarray(rng.choice(np.array([-0.5, 0.5]), shape) * world.kinds, dtype=np.float64)


def _noise(world: World, rng: np.random.Generator, shape: Shape, memory: float) -> Floats:
    """Return the noise of single blocks; the last axis is time and remembers itself, AR(1)."""
    if world.pair_tails == "t3":
        noise = rng.standard_t(3, shape) / T3_SD
    else:
        noise = rng.standard_normal(shape)
    noise *= world.pair_sd / np.sqrt(2)
    if memory:
        fresh = np.sqrt(1 - memory**2)
        for now in range(1, shape[-1]):
            noise[..., now] = memory * noise[..., now - 1] + fresh * noise[..., now]
    return noise


def _machine(world: World, rng: np.random.Generator, shape: Shape) -> Floats:
    """Return what the machine does to blocks in the order of time, the last axis."""
    at = np.arange(shape[-1])
    if world.arm_memory:
        blocks = np.zeros(shape)
    else:
        blocks = _noise(world, rng, shape, world.machine_memory)
    if world.drift_sd:
        blocks += rng.normal(0, world.drift_sd, (*shape[:-1], 1)) * at
    if world.outliers:
        hit = (rng.random(shape[:-1]) < world.outliers)[..., None]
        here = at == rng.integers(0, shape[-1], (*shape[:-1], 1))
        blocks -= (hit & here) * rng.uniform(*OUTLIER, (*shape[:-1], 1))
    if world.neighbour:
        begins = rng.random(shape) < world.neighbour
        beside = begins.copy()
        beside[..., 1:] |= begins[..., :-1]
        blocks -= beside * rng.uniform(*NEIGHBOUR, shape)
    return blocks


def _starts(world: World, rng: np.random.Generator, shape: Shape) -> Floats:
    """Return what the start of a server decided for all of its blocks."""
    if world.launch_shape == "t3":
        starts = rng.standard_t(3, shape) / T3_SD
    elif world.launch_shape == "two_states":
        starts = rng.choice(np.array([-1.0, 1.0]), shape)
    else:
        starts = rng.standard_normal(shape)
    return np.asarray(starts * (world.launch_sd / np.sqrt(2)), dtype=np.float64)


def _signs(rng: np.random.Generator, shape: Shape, *, balanced: bool) -> Floats:
    """Return +1 where the candidate starts second, -1 where first; the last axis is launches.

    Balanced: every second launch takes the order opposite to that of the one before.
    """
    signs = np.where(rng.integers(0, 2, shape) == 1, 1.0, -1.0)
    if balanced:
        signs[..., 1::2] = -signs[..., : shape[-1] - 1 : 2]
    return signs


def _read(world: World, rng: np.random.Generator, logs: Floats) -> Floats:
    """Return log rates as they are read: in steps, which begin anywhere, where there are steps."""
    if not world.quantum:
        return logs
    phase = rng.random((*logs.shape[:-2], 1, 1))
    return np.asarray(np.round(logs / world.quantum + phase) * world.quantum, dtype=np.float64)

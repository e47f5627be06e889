"""The way of tokens to their experts and back, each number again from what a token needs where.

DeepSeek-V3: a token of 7,168 elements picks 8 of 256 experts; it leaves in FP8 (1 byte an element) and what was
made of it comes back in BF16 (2 bytes), so 3 bytes an element both ways.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from layers.floor.account import Account
from layers.floor.floors import floor, links_s, times
from layers.floor.hardware import SCALE_OUT, SCALE_UP, Hardware, Link
from layers.floor.layout import Layout
from layers.floor.modules import MixtureOfExperts, Place, Step
from tests.unit.test_floor_case_study import FP8, deepseek, h20

DEEPSEEK = MixtureOfExperts(7168, 2048, 256, 8)
BOTH_WAYS = 7168 * (1 + 2)  # bytes of a token
LINKS = {SCALE_UP: Link(450e9, 1e-6), SCALE_OUT: Link(25e9, 5e-6)}


def moved(
    layout: str, tokens: float, module: MixtureOfExperts = DEEPSEEK, card: Hardware | None = None
) -> Account:
    """Return the account of a layer of experts, for `tokens` sequences that decode on all devices."""
    return module.account(Step(tokens, 1.0), Place(Layout.parse(layout), card or h20(), FP8))


@pytest.mark.parametrize(
    ("devices", "per_node", "top_k"), [(4, 2, 1), (4, 2, 3), (4, 1, 4), (6, 2, 4), (6, 3, 5)]
)
def test_a_token_crosses_to_each_node_once_however_many_of_its_experts_are_there(
    devices: int, per_node: int, top_k: int
) -> None:
    """Count copies for every way in which a token of device 0 may pick the places of its experts."""
    here = away = 0
    picks = list(itertools.product(range(devices), repeat=top_k))
    for picked in picks:
        here += len({place for place in picked if 0 < place < per_node})
        away += len({place // per_node for place in picked if place >= per_node})
    card = replace(h20(), devices_per_node=per_node)
    found = moved(f"ep{devices}+dp", 8.0 * devices, replace(DEEPSEEK, top_k=top_k), card).net_bytes
    assert found.get(SCALE_UP, 0.0) == pytest.approx(8 * here / len(picks) * BOTH_WAYS)
    assert found[SCALE_OUT] == pytest.approx(8 * away / len(picks) * BOTH_WAYS)


def test_on_two_nodes_a_token_leaves_its_own_once_and_not_for_each_of_three_devices() -> None:
    """16 devices, 2 nodes: all 8 experts of a token lie on its own node 1 time in 256.

    So 255/256 of the tokens cross, once. A copy for each device with an expert would be 8 devices away times
    1 - (15/16)^8 = 0.4033, so 3.23 copies: 3.2 times too many for a kernel that forwards on the node.
    """
    found = moved("ep16+dp", 64.0 * 16).net_bytes
    assert found[SCALE_OUT] == pytest.approx(64 * 255 / 256 * BOTH_WAYS)
    assert found[SCALE_UP] == pytest.approx(64 * 7 * (1 - (15 / 16) ** 8) * BOTH_WAYS)
    copies = 8 * (1 - (15 / 16) ** 8)
    assert copies * 64 * BOTH_WAYS / found[SCALE_OUT] == pytest.approx(3.24, abs=0.01)


@pytest.mark.parametrize(("layout", "ep"), [("dp8", 1), ("ep2+dp8", 2), ("ep8+dp8", 8)])
def test_split_experts_need_the_tokens_of_all_groups_on_each_of_their_devices(
    layout: str, ep: int
) -> None:
    """128 tokens a device, 8 devices: each gets those of 7 others that have an expert of its own.

    Whole experts on one place (`dp8`): all of them, 128 x 7 tokens of 21,504 bytes a layer, 19.3 MB; in 58
    layers 1.12 GB, 2.48 ms over 450 GB/s (3.3 ms with tokens in BF16), where one copy a token would be an eighth.
    """
    met = 1 - (1 - 1 / ep) ** 8
    found = moved(layout, 8 * 128.0)
    assert found.net_bytes == {SCALE_UP: pytest.approx(128 * 7 * met * BOTH_WAYS)}
    assert found.net_messages == {SCALE_UP: 2.0}


def test_a_deployment_of_split_experts_is_bound_by_its_network_in_time() -> None:
    """1.12 GB in 58 layers over 450 GB/s are 2.48 ms, by the sum over a whole model, too."""
    place = Place(Layout.parse("dp8"), h20(), FP8)
    found = floor(deepseek(), Step(8 * 128.0, 1.0), place)
    assert found.times.network_s == pytest.approx(58 * 128 * 7 * BOTH_WAYS / 450e9)
    assert found.times.network_s == pytest.approx(2.48e-3, abs=0.01e-3)


def test_experts_split_over_two_nodes_are_sent_to_each_node_once() -> None:
    """16 devices, one place of experts: each needs all tokens. Over the link between nodes a node needs those
    of the other once: 8 devices share 8 x 64 of them, so 64 each; on a node each device sends its 64 to 7.
    """
    found = moved("dp16", 16 * 64.0).net_bytes
    assert found[SCALE_OUT] == pytest.approx(64 * BOTH_WAYS)
    assert found[SCALE_UP] == pytest.approx(64 * 7 * BOTH_WAYS)


@pytest.mark.parametrize(
    ("top_k", "switch", "asked"),
    [
        # Each device has 1/8 of 64 tokens and sends them to the 7 others where they have an expert.
        (8, "carries", 64 / 8 * 7 * (1 - (7 / 8) ** 8) * BOTH_WAYS),
        # Nearly all are needed everywhere: 64 x 7/8 x 3 = 168 bytes an element, more than the sum in BF16
        # where the switch adds: 64 x 2 = 128.
        (64, "adds", 64 * 7168 * 2),
    ],
)
def test_without_dp_every_device_has_all_tokens_and_the_sum_is_one_message(
    top_k: int, switch: str, asked: float
) -> None:
    """`tp8+ep8`: attention's sum leaves all tokens on all devices. No dispatch, one all-reduce a layer: 58
    messages a step and not 116; of the bytes the lesser of that sum and of tokens sent in shares.
    """
    card = replace(h20(), links={**LINKS, SCALE_UP: Link(450e9, 1e-6, switch == "adds")})
    found = moved("tp8+ep8", 64.0, replace(DEEPSEEK, top_k=top_k), card)
    assert found.net_messages == {SCALE_UP: 1.0}
    assert found.net_bytes == {SCALE_UP: pytest.approx(asked)}


def test_experts_that_are_not_shared_out_end_in_the_sum_of_all_devices() -> None:
    """A ring moves 2 x 7/8 of 64 tokens in BF16, in one message."""
    found = moved("tp8", 64.0)
    assert found.net_bytes == {SCALE_UP: pytest.approx(2 * 7 / 8 * 64 * 7168 * 2)}
    assert found.net_messages == {SCALE_UP: 1.0}


def test_groups_on_nodes_of_their_own_send_between_nodes_and_sum_within() -> None:
    """`tp8+dp2+ep16`: a group is a node. Its 64 tokens cross once, an eighth by each device, if any of their
    experts is there (255 of 256). On the node: an eighth to 7 devices that have an expert, as if sent in shares.
    Messages: two between the nodes; on the node one, the sum.
    """
    found = moved("tp8+dp2+ep16", 128.0, card=replace(h20(), links=LINKS))
    assert found.net_bytes == {
        SCALE_UP: pytest.approx(64 / 8 * 7 * (1 - (15 / 16) ** 8) * BOTH_WAYS),
        SCALE_OUT: pytest.approx(64 / 8 * 255 / 256 * BOTH_WAYS),
    }
    assert found.net_messages == {SCALE_UP: 1.0, SCALE_OUT: 2.0}


@pytest.mark.parametrize("imbalance", [1.0, 1.5, 4.0])
def test_no_device_and_no_node_gets_a_token_more_than_once(imbalance: float) -> None:
    """Uneven experts: a device with 1.5 times the mean meets 1.5 x 0.4033 of the tokens, never more than all."""
    found = moved("ep16+dp", 64.0 * 16, replace(DEEPSEEK, imbalance=imbalance)).net_bytes
    device = min(1.0, imbalance * (1 - (15 / 16) ** 8))
    assert found[SCALE_UP] == pytest.approx(64 * 7 * device * BOTH_WAYS)
    assert found[SCALE_OUT] == pytest.approx(64 * min(1.0, imbalance * 255 / 256) * BOTH_WAYS)


def test_links_carry_at_the_same_time_and_t_opt_takes_the_busiest() -> None:
    """9 MB over 450 GB/s and one message of 1 us: 21 us. 1 MB over 25 GB/s and two of 5 us: 50 us.

    A kernel that forwards what comes from the other node while more comes takes 50 us; one after the other, 71.
    """
    card = Hardware("card", 1e9, 1e12, {"bf16": 1e15}, LINKS)
    account = Account(
        net_bytes={SCALE_UP: 9e6, SCALE_OUT: 1e6}, net_messages={SCALE_UP: 1.0, SCALE_OUT: 2.0}
    )
    found = times(account, card)
    assert links_s(account, card) == {
        SCALE_UP: pytest.approx(21e-6),
        SCALE_OUT: pytest.approx(50e-6),
    }
    assert found.t_opt_s == pytest.approx(50e-6)
    assert found.t_sum_s == pytest.approx(71e-6)
    assert found.binding == "network"

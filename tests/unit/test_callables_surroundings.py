"""What a call leaves behind in its process, and the least that it must have written."""

import logging
import sys
import warnings

import numpy as np
import pytest

from layers.callables import snapshot
from layers.callables.ceilings import PAGE, write_floor_gate, written_bytes
from layers.evidence import GateResult


def _changed(before: dict[str, object]) -> list[str]:
    """Return what changed, but for the timer that ends a test which takes too long."""
    return [n for n in snapshot.changes(before, snapshot.take({})) if n != "timers"]


def test_settings_of_the_whole_process_are_watched() -> None:
    limit, show = sys.getrecursionlimit(), warnings.showwarning
    with warnings.catch_warnings():
        before = snapshot.take({})
        assert _changed(before) == []
        warnings.filterwarnings("ignore", "size changed", module="numpy")  # a library's own
        assert _changed(before) == []
        try:
            logging.disable(logging.CRITICAL)
            sys.setrecursionlimit(limit + 1)
            warnings.simplefilter("ignore")
            warnings.showwarning = lambda *_: None
            found = _changed(before)
        finally:
            logging.disable(logging.NOTSET)
            sys.setrecursionlimit(limit)
            warnings.showwarning = show
    assert {"logging disabled", "recursion limit", "warnings shown"} < set(found)
    assert "warnings of RuntimeWarning" in found


def test_the_largest_blocks_of_memory_come_and_go_by_themselves() -> None:
    before = snapshot.take({})
    assert before["large blocks"][1] is True
    assert np.ones(30 << 20, dtype=np.uint8).all()  # from then on such blocks lie on the heap
    held = [np.ones(24 << 20, dtype=np.uint8) for _ in range(4)]
    above = np.ones(1 << 20, dtype=np.uint8)
    del held  # 96 MiB stay free below
    assert _changed(before) == []
    assert above.all()


@pytest.mark.parametrize(
    ("array", "size"),
    [
        (np.zeros(4 * PAGE, dtype=np.uint8), 0),
        (np.ones(4 * PAGE, dtype=np.uint8), 4 * PAGE),
        (np.arange(2 * PAGE) == PAGE + 9, PAGE),
        (np.zeros((3, 5), dtype=np.complex64), 120),  # less than a page
        (np.zeros((0, 5)), 0),
        (np.array(1.0), 8),
        (np.array(["a" * 99], dtype=object), 0),
    ],
)
def test_pages_of_zeros_need_not_be_written(array: np.ndarray, size: int) -> None:
    assert written_bytes(array) == size


def test_only_what_the_reference_keeps_to_is_asked_of_a_candidate() -> None:
    found = [write_floor_gate(1 << 20, new, old).result for new, old in ((0, 1), (1, 1), (0, 0))]
    assert found == [GateResult.FAIL, GateResult.PASS, GateResult.PASS]

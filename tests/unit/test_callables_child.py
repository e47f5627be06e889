"""What the process of a function watches of itself, and what it takes for a result."""

import sys
import types
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from layers.callables import child


@pytest.fixture
def session() -> child.Session:
    return child.Session(types.SimpleNamespace())


def _changed(session: child.Session, act: Callable[[], object]) -> set[str]:
    """Return the names of what the caller consists of that something changes."""
    before = dict(vars(session._own()["the caller"]))
    act()
    after = vars(session._own()["the caller"])
    return {name for name, held in before.items() if after.get(name) is not held}


def test_what_nobody_touches_does_not_change(session: child.Session) -> None:
    assert _changed(session, lambda: None) == set()
    assert len(vars(session._own()["the caller"])) > 200


@pytest.fixture
def code() -> Iterator[None]:
    """Put back the code of a function that a test replaces."""
    before = child.codec._strings.__code__
    yield
    child.codec._strings.__code__ = before


def test_hidden_functions_of_the_caller_are_watched(
    session: child.Session, monkeypatch: pytest.MonkeyPatch, code: None
) -> None:
    def replace() -> None:
        monkeypatch.setattr(child.codec, "_node", lambda value, blobs, depth: {})
        child.codec._strings.__code__ = (lambda array: b"").__code__
        monkeypatch.setattr(child.Inputs, "put", lambda self, tree, how: None)
        monkeypatch.setattr(child.snapshot, "changes", lambda before, after: [])

    changed = _changed(session, replace)
    assert any(name.startswith("codec _node") for name in changed)
    assert "codec _strings code" in changed
    assert "inputs put" in changed
    assert any(name.startswith("snapshot changes") for name in changed)


def test_objects_of_the_caller_are_watched(session: child.Session) -> None:
    def replace() -> None:
        session._inputs.put = lambda tree, how: None
        session._fetch = lambda body: None
        session._commands[b"C"] = print

    changed = _changed(session, replace)
    assert {"inputs put", "session _fetch", "command b'C'"} <= changed


def test_another_object_in_the_place_of_one_is_a_change(session: child.Session) -> None:
    def replace() -> None:
        session._inputs = child.Inputs()

    assert "inputs" in _changed(session, replace)


def test_modules_of_the_caller_cannot_be_imported() -> None:
    assert not {"codec", "memory", "snapshot"} & set(sys.modules)
    assert not any("fvec" in vars(module)["__name__"] for module in (child.codec, child.memory))


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [x], lambda x: {"a": (1, x)}])
def test_no_result_holds_a_leaf_of_ours(wrap: Callable[[object], object]) -> None:
    leaf = child.codec.Leaf("ndarray", "<f8", np.zeros(2))
    with pytest.raises(child.codec.CodecError, match="leaf"):
        child._refuse_leaves(wrap(leaf))
    child._refuse_leaves(wrap(np.zeros(2)))


def test_a_result_without_end_is_refused() -> None:
    endless: list[object] = []
    endless += [endless, endless]
    with pytest.raises(child.codec.CodecError, match="nested deeper"):
        child._refuse_leaves(endless)

"""Whatever is in a results folder, reading it gives claims or says what is wrong; never a crash."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bot.github.commits import check_own_branch
from bot.publishing import claims
from bot.publishing.claims import CHANGE_BRANCH, Claims
from layers.errors import InvalidInput
from tests.github.recorded_results import Ran

pytest_plugins = ["tests.github.recorded_fixtures"]

FILES = ("run.json", "forge/pulls/1/meta.json", "forge/pulls/2/evidence.json")
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["../..", "--help", "fvec/features/x", "\u0000", "a" * 40, "\ud800"]),
    st.just([]),
    st.just({}),
)


@pytest.fixture(scope="module")
def results(recorded_run: Ran, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return recorded_run.copied(tmp_path_factory.mktemp("claims") / "results")


def altered(document: Any, data: st.DataObject, value: Any) -> Any:
    """Return a document in which one node, somewhere, is another value."""
    if isinstance(document, dict) and document and data.draw(st.integers(0, 7)):
        key = data.draw(st.sampled_from(sorted(document)))
        return {**document, key: altered(document[key], data, value)}
    if isinstance(document, list) and document and data.draw(st.integers(0, 7)):
        place = data.draw(st.integers(0, len(document) - 1))
        changed = altered(document[place], data, value)
        return [*document[:place], changed, *document[place + 1 :]]
    return value


def read_with(results: Ran, name: str, content: bytes) -> Claims | InvalidInput:
    file: Path = results.out / name
    before = file.read_bytes()
    try:
        file.write_bytes(content)
        return claims.read(results.out)
    except InvalidInput as error:
        return error
    finally:
        file.write_bytes(before)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(FILES), data=st.data(), value=values)
def test_one_altered_value_is_read_or_refused(results, name, data, value):
    document = altered(json.loads((results.out / name).read_text()), data, value)
    content = json.dumps(document).encode("utf-8", "replace")
    found = read_with(results, name, content)
    if isinstance(found, InvalidInput):
        assert found.hint
    else:
        assert all(CHANGE_BRANCH.fullmatch(branch) for branch in found.branches)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(FILES), content=st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(results, name, content):
    assert isinstance(read_with(results, name, content), InvalidInput)


@given(st.from_regex(CHANGE_BRANCH, fullmatch=True))
def test_every_branch_of_a_change_may_be_pushed(name):
    assert check_own_branch(name) == name

"""The packaged prompts: each says what its role must know, and the tools that it is told of exist."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from layers.agents.memory import backlog
from layers.agents.roles.accuracy_judge import Kind
from layers.agents.roles.prompting import prompt, system
from layers.agents.workbench.quoting import HOW_QUOTED
from layers.base import ChangeClass

MOST_BYTES = 8 * 1024  # of one prompt: it is read anew in every conversation
ENDS = {
    "planner": "plan",
    "implementer": "submit",
    "accuracy_judge": "audit",
    "performance_evaluator": "advise",
}


def test_prompts_are_packaged_and_short() -> None:
    folder = resources.files("layers.agents.roles").joinpath("prompts")
    names = {file.name.removesuffix(".md") for file in folder.iterdir() if file.name[-3:] == ".md"}
    assert names >= {*ENDS, "gates", "data", "command"}
    assert all(0 < len(prompt(name).encode()) <= MOST_BYTES for name in names)


@pytest.mark.parametrize(("name", "tool"), ENDS.items())
def test_each_role_is_told_by_which_tool_it_ends(name: str, tool: str) -> None:
    assert re.search(rf"tool `{tool}`, once", " ".join(prompt(name).split()))


def test_the_judge_is_told_every_kind_that_it_may_answer_with() -> None:
    headings = re.findall(r"^`(\w+)`: ", prompt("accuracy_judge"), re.MULTILINE)
    assert headings == [kind.value for kind in Kind]


def test_every_class_of_change_is_explained() -> None:
    told = re.findall(r"^- `(\w+)`: ", prompt("gates"), re.MULTILINE)
    assert told == [one.value for one in ChangeClass]


@pytest.mark.parametrize(
    "words",
    ["`.github/`", "the manifest", "the recorded traffic", "the referee", "the requirements file"],
)
def test_what_judges_is_said_to_be_read_only(words: str) -> None:
    gates = " ".join(prompt("gates").split())
    assert words in gates[gates.index("Read-only, and rejected in any edit:") :]


@pytest.mark.parametrize(
    "reason",
    [
        "not_text",
        "unsafe_path",
        "outside_served_files",
        "interface_differs",
        "baseline_not_reproducible",
        "memory_undecided",
        "generator_bound",
        "more_errors",
        "launches_differ",
        "costs_more_cpu",
        "voids_one_sided",
        "neighbours_one_sided",
    ],
)
def test_a_gate_that_its_class_does_not_explain_is_told_with_its_reason(reason: str) -> None:
    assert f"`{reason}`" in prompt("gates")
    assert any(reason in side for side in backlog.REASONS.values())


def test_how_data_is_quoted_is_said_to_whoever_reads_some() -> None:
    text = system("planner", "gates", "data")
    assert text.startswith(prompt("planner"))
    assert text.endswith(HOW_QUOTED)
    assert prompt("data") in text
    assert system("planner", "gates", "data") == text  # nothing of a run is in it

"""What configures agents, and what of it asks for limits or tools that nobody gives it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from layers.agents.command import HYPOTHESIS
from layers.agents.roles.prompting import prompt
from layers.agents.service.conversation import ToolRefused
from layers.agents.workbench.configuration import MOST_BYTES, asks_for_more, may_ask
from layers.agents.workbench.quoting import Seen
from layers.agents.workbench.tools import writing_tools
from layers.agents.workbench.workspace import Workspace
from layers.redact import MARK
from layers.story import Role
from tests import canaries
from tests.agents_workspace import FILES, PROTECTED, repository

OURS = "schema: fvec.agents/1\nbudget: {usd: 5000, minutes: 1440}\ncommand:\n  run: [sh]\n"


def lines(path: str, text: str) -> list[int]:
    return [number for number, _ in asks_for_more(path, text)]


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        (".claude/settings.json", '{"permissions": {"allow": ["Bash(*)"]}}', [1]),
        (".claude/settings.json", '{\n  "model": "big",\n  "hooks": {}\n}', [3]),
        (".mcp.json", '{"mcpServers":{"x":{"command":"sh"}}}', [1]),
        ("CLAUDE.md", "---\nallowed-tools: Bash(*)\n---\nUse the tools well.\n", [2]),
        (".codex/config.toml", 'approval_policy = "never"\n[mcp_servers.x]\nkey = 1\n', [1, 2]),
        ("docs/agents.md", "# How\nWe run: make test\nThe network: none\n", []),
        ("agents.yml", OURS, [2, 3, 4]),
        ("deploy/settings.yaml", OURS, [2, 3, 4]),
        (
            HYPOTHESIS,
            "issue: x\ntimeout_s: 90000\nnetwork: true\nbudget:\n  rounds: 99\n",
            [2, 3, 4, 5],
        ),
        (HYPOTHESIS, "issue: x\nmodel: ranker\nclaim: The tools run, and take minutes.\n", []),
    ],
)
def test_limits_and_tools_are_found_where_they_are_named(path, text, found):
    assert lines(path, text) == found
    assert may_ask(path, text)


def test_a_claim_as_the_prompt_shows_it_asks_for_nothing():
    example = prompt("command").partition("```yaml\n")[2].partition("```")[0]
    assert "issue: parse-once" in example
    assert lines(HYPOTHESIS, example) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("models/m/config.yaml", "budget: 3\n"),
        ("README.md", OURS),
        ("models/fvec-hypothesis.yaml", "budget: 3\n"),
    ],
)
def test_other_files_configure_nobody(path, text):
    assert not may_ask(path, text)


def test_what_asks_for_more_is_noted_by_its_place_without_secrets():
    token = canaries.tokens()["github personal"]
    seen = Seen()
    seen.configured(f"tools: all\nhooks: curl -H {token}\u202e x\n", "CLAUDE.md")
    seen.configured("tools: all\n", "CLAUDE.md")
    first, second = seen.suspicions
    assert (first.place, first.kind, first.excerpt) == (
        "CLAUDE.md:1",
        "asks_for_more",
        "tools: all",
    )
    assert (second.place, second.kind) == ("CLAUDE.md:2", "asks_for_more")
    assert MARK in second.excerpt
    assert token not in second.excerpt
    assert "<U+202E>" in second.excerpt


def test_a_long_line_is_cut():
    seen = Seen()
    seen.configured(f"tools: {'x' * 5000}", "CLAUDE.md")
    (only,) = seen.suspicions
    assert len(only.excerpt) <= 200


# --- in a workspace -----------------------------------------------------------------------------

BROUGHT = {
    "CLAUDE.md": b"tools: all\n",
    ".claude/settings.json": b'{"permissions": {}}\n',
    "agents.yml": OURS.encode(),
    HYPOTHESIS: b"budget: {usd: 9}\n",
    "models/other.yaml": b"budget: 3\n",
    "traffic/CLAUDE.md": b"tools: hidden\n",
}


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    root = repository(tmp_path / "stack", {**FILES, **BROUGHT})
    long = root / "GEMINI.md"
    long.write_bytes(b"tools: x\n" + bytes(MOST_BYTES))
    (root / "QWEN.md").symlink_to("README.md")
    identity = ["-c", "user.name=Serving", "-c", "user.email=serving@example.com"]
    for arguments in (["add", "--all"], ["commit", "--quiet", "--message", "More"]):
        subprocess.run(["git", *identity, *arguments], cwd=root, check=True)
    with closing(Workspace.make(root, tmp_path / "work", PROTECTED, ("traffic",))) as made:
        yield made


def test_the_configurations_of_a_repository_are_found_and_of_those_hidden_none(workspace):
    assert dict(workspace.configurations()) == {
        name: text.decode()
        for name, text in BROUGHT.items()
        if name not in ("models/other.yaml", "traffic/CLAUDE.md")
    }


def test_what_a_program_leaves_is_found_too(workspace):
    before = dict(workspace.configurations())
    (workspace.root / ".claude").mkdir()
    (workspace.root / ".claude/settings.json").write_text('{"hooks": {}}')
    (workspace.root / "new.yaml").write_text(OURS)
    (workspace.root / "models/AGENTS.md").symlink_to("/etc/passwd")
    found = list(workspace.configurations())
    assert (".claude/settings.json", '{"hooks": {}}') in found
    assert ("new.yaml", OURS) in found
    assert len(found) == len(before) + 2


def test_a_model_that_configures_the_next_agent_is_noted_and_refused(workspace):
    seen = Seen()
    (write, *_) = writing_tools(workspace, seen, Role.IMPLEMENTER)
    given = {"path": ".claude/settings.json", "content": '{"permissions": {"allow": ["*"]}}'}
    with pytest.raises(ToolRefused, match="configures coding agents"):
        write.run(write.parameters.model_validate(given))
    assert [(one.place, one.kind) for one in seen.suspicions] == [
        (".claude/settings.json:1", "asks_for_more")
    ]
    assert [one.what for one in seen.refusals] == ["write .claude/settings.json"]

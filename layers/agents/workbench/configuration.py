"""What configures coding agents in a repository: such files steer, and some of them run programs.

Whoever wrote the serving repository would speak through them to the program that writes a change,
beside our prompt and with more say: instructions, hooks that are shell commands, servers of tools
that are started. So no workspace holds any, and none may be made: the next agent would obey it.
What is spent and reached is settled elsewhere, by whoever runs the bot; a text that names limits or
tools of its own, in such a file or in a claim, gets none, and is noted. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from layers.agent_settings import AgentSettings, AnthropicSection, BudgetSection, CommandSection

HYPOTHESIS = "fvec-hypothesis.yaml"  # the claim of a program, in the root of its working folder
SETTINGS = "fvec.agents/"  # the schema of our own settings, in whatever file
MOST_BYTES = 64 * 1024  # of a configuration that is looked into

# Files and folders of that name, in any folder and in any case: agents read nested ones, too.
NAMES = (
    "agent.md",
    "agents.md",
    "agents.*.md",
    "claude.md",
    "claude.*.md",
    "gemini.md",
    "qwen.md",
    "warp.md",
    ".aider*",
    ".amazonq",
    ".augment*",
    ".claude*",
    ".clinerules*",
    ".codex*",
    ".continue*",
    ".cursor*",
    ".devcontainer*",
    ".envrc",
    ".gemini*",
    ".goose*",
    ".junie",
    ".kilocode*",
    ".kiro",
    ".mcp.json",
    ".opencode*",
    "opencode.json*",
    ".qwen*",
    ".roo*",
    ".vscode",
    ".windsurf*",
    ".zed",
)
# In the folder of the repository's owners, which holds other things besides.
AT_GITHUB = ("copilot-*", "instructions", "prompts", "agents", "chatmodes", "hooks", "skills")
# Of any agent: what it may use, and how much.
_OF_ANY = (
    *("tools", "allowed_tools", "disallowed_tools", "permissions", "hooks", "mcp_servers"),
    *("sandbox", "approval_policy", "max_turns", "max_tokens", "budget", "timeout"),
)
# Of ours: all that the settings say, but for what a claim says, too.
_OF_OURS = frozenset(
    name
    for section in (AgentSettings, AnthropicSection, BudgetSection, CommandSection)
    for name in section.model_fields
) - {"model", "schema_"}


def configures_agents(path: str) -> bool:
    """Whether a path, or a folder that it lies in, is what coding agents are configured by."""
    parts = [part.casefold() for part in path.split("/")]
    if any(fnmatchcase(part, name) for part in parts for name in NAMES):
        return True
    return parts[0] == ".github" and any(fnmatchcase(parts[1], n) for n in AT_GITHUB if parts[1:])


def asks_for_more(path: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines, by number, in which a text names limits or tools that are not its to name.

    Of what configures agents the words of any agent count. In a claim, and in what says that it is
    settings of ours, those of `fvec.agents/1` count, too.
    """
    asks = _ANYWHERE if configures_agents(path) else _IN_OURS
    for number, line in enumerate(text.split("\n"), 1):
        if asks.search(line):
            yield number, line


def may_ask(path: str, text: str) -> bool:
    """Whether a file is a configuration of agents, or of ours, by its name or its content."""
    settings = path.endswith((".yml", ".yaml")) and SETTINGS in text
    return settings or path == HYPOTHESIS or configures_agents(path)


def _naming(names: Iterable[str]) -> re.Pattern[str]:
    """Return what finds a key of YAML, JSON or TOML, its words joined in whatever way."""
    keys = "|".join(name.replace("_", "[_-]?") for name in sorted(names))
    return re.compile(
        rf"(?:^|[\s{{,\[])[\"']?(?:{keys})[\"']?\s{{0,3}}[:=]|^\s{{0,20}}\[{{1,2}}(?:{keys})[.\]]",
        re.IGNORECASE,
    )


_ANYWHERE, _IN_OURS = _naming(_OF_ANY), _naming([*_OF_ANY, *_OF_OURS])

"""What configures coding agents in a repository: such files steer, and some of them run programs.

Whoever wrote the serving repository would speak through them to the program that writes a change,
beside our prompt and with more say: instructions, hooks that are shell commands, servers of tools
that are started. So no workspace holds any, and none may be made: the next agent would obey it.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

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


def configures_agents(path: str) -> bool:
    """Whether a path, or a folder that it lies in, is what coding agents are configured by."""
    parts = [part.casefold() for part in path.split("/")]
    if any(fnmatchcase(part, name) for part in parts for name in NAMES):
        return True
    return parts[0] == ".github" and any(fnmatchcase(parts[1], n) for n in AT_GITHUB if parts[1:])

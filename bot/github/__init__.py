"""All that knows GitHub: its API, git over HTTPS, and what a branch of ours may hold.

errors        pure: what GitHub answered, as errors for people
api           requests: time-outs, waiting, repeating; PyGithub's connection below
auth          credentials from the environment; installation tokens with the least permissions
client        connect: the bot's login and the repositories that it works on
replies       pure: GitHub's answers, checked, as data
contents      a repository's branches, files and commits
repository    its pull requests, comments, labels, check runs and dashboard
transport, commits, archive, forge, knowledge    git, and what is built on all of it
scratch       objects borrowed from a checkout, and nobody's settings
lessons       findings taken out of commits and merged into cards
"""

from __future__ import annotations

from collections.abc import Mapping

SERVER_URL = "https://github.com"


def server_url(environ: Mapping[str, str]) -> str:
    """Return where git and people go: GITHUB_SERVER_URL, as Actions sets it, or github.com."""
    return environ.get("GITHUB_SERVER_URL") or SERVER_URL

"""Strings in the form of credentials, put together when they are asked for: none is one."""

from __future__ import annotations

_LETTERS = "AbCdEf0123456789" * 8


def body(length: int, start: int = 0) -> str:
    """Return letters and digits."""
    return _LETTERS[start : start + length]


def pem(label: str = "PRIVATE" + " KEY", lines: int = 3, end: str = "\n") -> str:
    """Return a block as a key file has it."""
    rows = [
        f"-----BEGIN {label}-----",
        *([body(64)] * lines),
        body(20) + "==",
        f"-----END {label}-----",
    ]
    return end.join(rows)


def tokens() -> dict[str, str]:
    """Return one token of every form that is known anywhere, by what it is."""
    upper = body(16).upper()
    web = f"{'ey' + 'J'}{body(20)}.{'ey' + 'J'}{body(30)}.{body(43)}"
    return {
        "github personal": "gh" + "p_" + body(36),
        "github oauth": "gh" + "o_" + body(36),
        "github user": "gh" + "u_" + body(36),
        "github server": "gh" + "s_" + body(36),
        "github server, new form": "gh" + "s_" + f"123_{web}",
        "github refresh": "gh" + "r_" + body(76),
        "github fine-grained": "github" + "_pat_" + body(22) + "_" + body(59),
        "aws key": "AK" + "IA" + upper,
        "aws session key": "AS" + "IA" + upper,
        "hugging face": "h" + "f_" + body(34),
        "anthropic": "sk-" + "ant-api03-" + body(40) + "-" + body(30) + "_AA",
        "openai": "sk-" + body(48),
        "openai project": "sk-" + "proj-" + body(60) + "-x_" + body(20),
        "slack bot": "xox" + "b-" + "1234567890-" + body(24),
        "slack user": "xox" + "p-" + "1234567890-" + body(24),
        "slack app": "xap" + "p-1-" + body(12) + "-" + body(40),
        "slack hook": "hooks.slack" + ".com/services/T0000/B0000/" + body(24),
        "web token": web,
        "encrypted web token": f"{'ey' + 'J'}{body(20)}.{body(20)}.{body(16)}.{body(30)}.{body(22)}",
        "google": "AI" + "za" + body(35),
        "gitlab": "glp" + "at-" + body(20),
        "npm": "np" + "m_" + body(36),
        "pypi": "py" + "pi-" + body(60),
        "stripe": "sk" + "_live_" + body(24),
        "docker hub": "dckr" + "_pat_" + body(27),
        "nvidia": "nva" + "pi-" + body(64),
    }

"""Secrets taken out of text that leaves this process: logs, comments, pages, artifacts. Pure.

What a secret looks like is known for the credentials that a CI machine holds; those of a form of
their own are found anywhere, others behind a name that says what they are. Nothing here is a
licence to print secrets: it is the net below the rope.

Works on raw text and on text that was escaped for markdown, JSON or HTML. A mark is a plain word,
so that what was valid JSON, HTML or a markdown table still is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MARK = "REDACTED"
SHORTEST = 6  # characters of a secret that is passed in: a shorter one would hit words
SHORTEST_IN_ENVIRONMENT = 8
MOST_PASSES = 8

_U = r"\\?_"  # an underscore; markdown escapes it
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"  # of a word; behind an escaped line feed, too
_NAME = rf"(?:[A-Za-z0-9-]|{_U})"
_WHOLE = re.compile(
    # GitHub: personal, OAuth, user-to-server, server-to-server, refresh; some have dots
    rf"gh[pousr]{_U}(?:[0-9]+{_U})?[A-Za-z0-9]{{20,}}(?:[A-Za-z0-9]|{_U}|[.-](?=[A-Za-z0-9]))*"
    rf"|github{_U}pat{_U}(?:[A-Za-z0-9]|{_U}){{20,}}|"
    + _START
    + "(?:"
    + "|".join(
        (
            r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",  # AWS access keys
            rf"hf{_U}[A-Za-z0-9]{{20,}}",  # Hugging Face
            rf"sk-(?:ant|proj|svcacct|admin|or-v1)-{_NAME}{{16,}}",  # Anthropic, OpenAI and alike
            r"sk-[A-Za-z0-9]{32,}",
            r"xox[abceoprs]-[A-Za-z0-9-]{10,}",  # Slack
            r"xapp-[0-9]-[A-Za-z0-9-]{10,}",
            rf"hooks\.slack\.com/(?:services|workflows|triggers)/(?:[A-Za-z0-9/]|{_U}){{10,}}",
            rf"eyJ{_NAME}{{8,}}(?:\.{_NAME}{{4,}}){{2,4}}",  # JSON web tokens, signed or encrypted
            rf"AIza{_NAME}{{35}}",  # Google
            rf"glpat-{_NAME}{{20,}}",  # GitLab
            rf"npm{_U}[A-Za-z0-9]{{36}}",
            rf"pypi-{_NAME}{{50,}}",
            rf"[rs]k{_U}(?:live|test){_U}[A-Za-z0-9]{{16,}}",  # Stripe
            rf"dckr{_U}pat{_U}{_NAME}{{20,}}",  # Docker Hub
            rf"nvapi-{_NAME}{{30,}}",  # NVIDIA
        )
    )
    + ")"
)
_QUOTE = r"(?:\\?[\"']|&\#3[49];|&quot;)"
_IS = (  # quoted on both sides of the sign, as in JSON, or on none of the left
    rf"(?:{_QUOTE}[ \t]{{0,3}}[:=][ \t]{{0,3}}{_QUOTE}|[ \t]{{0,3}}[:=][ \t]{{0,3}}{_QUOTE}?)"
)
# An escaped quote or line feed of JSON ends a value; other escapes belong to it.
_ESCAPED = r"\\[^\"'nrt\s]"
# A bracket in it is of the value; one behind it is of the text around, a link's among others.
_BRACKET = r"\)(?=[A-Za-z0-9])"
_VALUE = rf"(?:[^\s\"'`<>|\\)]|{_BRACKET}|{_ESCAPED})"
_SEP = r"[_-]?"
_AFTER = re.compile(  # what is kept, then the secret
    rf"(:(?:&\#8203;|\u200b)?//)(?:[^\s/?\#<>\"'`\\)]|{_BRACKET}|{_ESCAPED}){{1,512}}(?=@)"
    rf"|((?i:authorization|private-token|x-api-key){_IS}"
    rf"(?:(?i:basic|bearer|token|digest|negotiate)[ \t]{{1,3}}(?={_VALUE}{{8}})|(?={_VALUE}{{16}})))"
    rf"{_VALUE}+"
    rf"|({_START}(?i:bearer)[ \t]{{1,3}})(?:[A-Za-z0-9.~+/=-]|\\?_){{16,}}"
    rf"|({_START}(?i:cookie){_IS})[^\s=;\"'`<>|\\]{{1,64}}=(?:[^\s;\"'`<>|\\]|{_ESCAPED}){{8,}}"
    # A line of an environment; numbers of tokens and tokenizers are no secrets.
    rf"|({_START}[A-Z0-9_\\]{{0,60}}(?:TOKEN(?!S|IZ)|SECRET|PASSWORD|PASSWD|CREDENTIALS?"
    rf"|(?:API|ACCESS|PRIVATE|SECRET|SIGNING)(?:{_U})?KEY)[A-Z0-9_\\]{{0,40}}{_IS})"
    rf"(?![$({{\[]){_VALUE}{{8,}}"
    # A key of a configuration; with a digit in its value, or it is more likely code.
    rf"|({_START}(?i:passw(?:or)?d"
    rf"|(?:api|access|private|secret){_SEP}(?:access{_SEP})?key"
    rf"|(?:client|app|webhook){_SEP}secret|(?:access|auth|session|refresh){_SEP}token){_IS})"
    r"(?=[A-Za-z+/=_~!%^*\\-]*[0-9])(?:[A-Za-z0-9+/=_~!%^*-]|\\[_~!*]){8,}(?![\w.(\[])"
)
_BREAK = r"(?:[ \t\r\n]|\\[nrt]){1,20}"
_LABEL = r"[A-Z0-9 ]{1,40}"
_PEM = re.compile(  # of what stands between the lines nothing but a block's own content is taken
    rf"-----BEGIN {_LABEL}-----"
    rf"(?:{_BREAK}(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset): ?"
    r"(?:[^\r\n\\\"]{1,200}(?=[\r\n\\])|[^\s\\\"]{1,100}(?: [^\s\\\"]{1,15}){0,4}(?=[\s\\])))*"
    rf"(?:{_BREAK}[A-Za-z0-9+/=]{{16,}})*"
    rf"(?:(?:{_BREAK})?[A-Za-z0-9+/=]{{0,15}}(?:{_BREAK})?-----END {_LABEL}-----)?"
)
_SECRET_WORDS = frozenset(
    (
        *("TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "PASS", "PASSCODE"),
        *("KEY", "KEYS", "APIKEY", "PAT", "CREDENTIAL", "CREDENTIALS", "AUTH", "COOKIE", "DSN"),
    )
)
_NO_SECRET_WORDS = frozenset(("FILE", "PATH", "DIR", "SOCK", "URL", "ID", "NAME"))
_INVISIBLE = r"(?:&\#8203;|\u200b|\\){0,2}"  # what escaping may put between two characters
_FORMS = {
    "&": "(?:&amp;|&)",
    "<": "(?:&lt;|<)",
    ">": "(?:&gt;|>)",
    '"': '(?:&quot;|&\\#34;|")',
    "'": "(?:&\\#39;|&\\#x27;|')",
    "\\": r"\\",
}


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text with every secret replaced by `MARK`.

    `secrets` are values to remove beside those that are known by their form; of several lines,
    each line; `known_secrets` finds those of an environment. Line feeds stay where they are, the
    result of a result is itself, and no text grows by more than its marks.
    """
    given = _given(secrets)
    for _ in range(MOST_PASSES):
        redacted = _pass(text, given)
        if redacted == text:
            break
        text = redacted
    return text


def known_secrets(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of an environment whose names say that they are secret, longest first."""
    values = {
        part.strip()
        for name, value in environment.items()
        if _is_secret(name)
        for part in (value, *re.split(r"[,\n]", value))  # several, while one is being replaced
    }
    return tuple(sorted((v for v in values if len(v) >= SHORTEST_IN_ENVIRONMENT), key=_by_length))


def _pass(text: str, given: re.Pattern[str] | None) -> str:
    if given is not None:
        text = given.sub(MARK, text)
    text = _WHOLE.sub(MARK, text)
    text = _PEM.sub(lambda block: MARK + "\n" * block.group().count("\n"), text)
    return _AFTER.sub(lambda hit: hit.group(hit.lastindex or 0) + MARK, text)


def _given(secrets: Iterable[str]) -> re.Pattern[str] | None:
    """Return what finds the secrets, as they are and as escaped for markdown, JSON or HTML."""
    parts = {line.strip() for secret in secrets for line in secret.splitlines()}
    wanted = sorted((p for p in parts if len(p) >= SHORTEST and p not in MARK), key=_by_length)
    return re.compile("|".join(map(_escaped, wanted))) if wanted else None


def _escaped(secret: str) -> str:
    """Return a pattern for a secret in any of the forms that escaping gives it."""
    slashes = r"\\{0,8}"  # in front of it: half of an escape may not be left
    return slashes + _INVISIBLE.join(_FORMS.get(c) or re.escape(c) for c in secret)


def _by_length(text: str) -> tuple[int, str]:
    return -len(text), text


def _is_secret(name: str) -> bool:
    words = name.upper().split("_")
    return words[-1] not in _NO_SECRET_WORDS and not _SECRET_WORDS.isdisjoint(words)

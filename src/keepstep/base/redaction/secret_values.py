# SPDX-License-Identifier: Apache-2.0
"""Values of settings: how they are written, which of them are no secret, and which of them look random."""

from __future__ import annotations

import itertools
import re

from keepstep.base.lazy_pattern import lazy_pattern
from keepstep.base.redaction.secret_row import MARK

# A quoted value may be cut off by the end of its line; one in escaped quotes ends at any quote; a bare one ends at a
# blank, less closing punctuation.
_END = r"(?=\n)|\Z"
_PREFIX = r"[bBrRuUfF]{0,2}"
QUOTED = rf"""{_PREFIX}"(?:[^"\\\n]|\\.)*(?:"|{_END})|{_PREFIX}'(?:[^'\\\n]|\\.)*(?:'|{_END})|`[^`\n]{{1,400}}`"""
_ESCAPED = r"""\\+["'][^"'\n]*\\{0,8}["']?|&quot;[^&\n]{0,400}(?:&quot;)?|%2[27][^%\n]{0,400}(?:%2[27])?"""
BARE = r"""(?!\\{0,8}["'])\S\S*?(?=[\\"',;)\]}>]{0,6}(?:\s|\Z))"""
VALUE = rf"(?P<value>{QUOTED}|{_ESCAPED}|{BARE})"
SIMPLE = rf"""(?P<value>{QUOTED}|{_ESCAPED}|[^\s"'`\\,;&)\]}}]+)"""

# Between a name and its value: NAME=value, "name": "value", ENV['NAME'] = value, ("name", "value"), name%3Dvalue.
EQUALS = (
    r"""(?:\\{0,8}["'`*]{0,2}\]?[^\S\n]{0,40}(?:=>|:=|->|={1,3}|[:：＝]|%3[ADad]|\\u003[adAD]|&#61;)"""
    r"""(?:\*\*)?[^\S\n]{0,40}"""
    r"""|\\{0,8}["'][^\S\n]{0,4},[^\S\n]{0,4}(?=[bBuU]?\\{0,8}["']))"""
)

_NOTHING = lazy_pattern(
    r"""[\\"'`(<\[]{0,8}(?:none|null|nil|true|false|yes|no|undefined|unset|empty|default|redacted|hidden|str|bytes|string|bool|int|float
    |\*{1,80}|x{3,80}|\.{3}|\$\w+|\$\{\w+\}|\$\{\{[^{}\n]{0,80}\}\}|\$\([^()\n]{0,80}\)|%\w+%|\{\w+\}|sha256:[0-9a-f]{64})?[\\"'`)>\],;:}]{0,8}
    |["']?(?:/(?:run|home|etc|root|var|mnt|opt|secrets|data|workspace|usr|tmp)/|~/|\.{1,2}/)[\w./-]*["']?
    |(?:os\.environ|os\.getenv|getenv\(|self\.|args\.|kwargs|cfg\.|config\.|Optional\[|Union\[|field\().*""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
"""Values that are no secret: absent ones, types, files that hold one, references in program text."""

SAID = frozenset(
    [
        "a",
        "an",
        "the",
        "not",
        "no",
        "too",
        "so",
        "to",
        "in",
        "on",
        "for",
        "from",
        "of",
        "by",
        "it",
        "is",
        "was",
        "be",
        "being",
        "been",
        "and",
        "or",
        "as",
        "at",
        "if",
        "now",
        "only",
        "still",
        "also",
        "already",
        "never",
        "always",
        "very",
        "your",
        "our",
        "incorrect",
        "invalid",
        "wrong",
        "required",
        "needed",
        "missing",
        "empty",
        "set",
        "unset",
        "expired",
        "valid",
        "correct",
        "ok",
        "okay",
        "accepted",
        "rejected",
        "denied",
        "refused",
        "weak",
        "strong",
        "short",
        "long",
        "stored",
        "saved",
        "read",
        "sent",
        "given",
        "used",
        "asked",
        "entered",
        "checked",
        "hashed",
        "encrypted",
        "hidden",
        "masked",
        "protected",
        "changed",
        "reset",
        "known",
        "unknown",
        "deprecated",
        "ignored",
        "optional",
        "mandatory",
        "supported",
        "unsupported",
        "allowed",
        "disabled",
        "enabled",
        "different",
        "identical",
        "blank",
        "null",
        "none",
        "undefined",
        "case",
        "authentication",
        "safe",
        "secure",
        "authenticated",
        "based",
        "file",
        "manager",
        "policy",
        "prompt",
        "field",
        "less",
        "free",
        "login",
        "auth",
        "hash",
        "grant",
        "change",
        "reset",
        "type",
    ]
)
"""Words that are said of a secret, and are none: ``password is wrong``, ``token: not found``."""

_TOKEN = lazy_pattern(r"[A-Za-z0-9+/=_.~:%-]{16,4096}")
_HASH = lazy_pattern(r"[0-9a-f]{7,64}|[0-9A-F]{7,64}|0[xX][0-9a-fA-F]+")
_ADDRESS = lazy_pattern(r"0[xX][0-9a-fA-F]+")
CHANGES = 0.3
"""How often a random text changes between small letters, capitals and digits; words and numbers do so less."""


def is_nothing(value: str) -> bool:
    return value.rstrip(".,;:!?").lower() in SAID or _NOTHING.fullmatch(value) is not None


def keep_name(match: re.Match[str]) -> str:
    """The setting with its name, its quotes, and the mark for its value."""
    value = match["value"]
    if is_nothing(value):
        return match[0]
    head = match[0][: match.start("value") - match.start(0)]
    if _is_a_name(value, head):
        return match[0]
    tail = match[0][match.end("value") - match.start(0) :]
    opening = re.match(r"""(?:[bBrRuUfF]{0,2}\\{0,8}["'`])?""", value)
    quotes = opening[0] if opening else ""
    closing = re.search(r"""(?<!\\)\\{0,8}["'`]\Z""", value[len(quotes) :]) if quotes else None
    return f"{head}{quotes}{MARK}{closing[0] if closing else ''}{tail}"


def _is_a_name(value: str, head: str) -> bool:
    """``connect(password=password)`` in a line of a program, and lists of names of variables."""
    word = value.strip("\"'")
    if not word.isidentifier():
        return False
    if head.rstrip("=: ").lower().endswith(word.lower()):
        return True
    parts = word.split("_")  # letters only: a generated secret may consist of capitals, digits and underscores
    return (
        head.rstrip().endswith(",")
        and word.isupper()
        and (len(parts) > 1 or word == "OLDPWD")
        and all(part.isalpha() for part in parts)
    )


def changes(word: str) -> tuple[int, int]:
    """How many letters and digits it has, and how often their kind changes from one to the next."""
    kinds = [0 if c.isdigit() else 1 if c.islower() else 2 for c in word if c.isalnum()]
    return len(kinds), sum(a != b for a, b in itertools.pairwise(kinds))


def looks_random(value: str) -> bool:
    """Long, of letters and digits that change often: what a generator makes, and no path, name, time or number."""
    word = value.strip("\"'`\\ ")
    if not _TOKEN.fullmatch(word) or word.startswith(("/", "./", "~/", "sha256:")) or _ADDRESS.fullmatch(word):
        return False
    if not any(c.isalpha() for c in word) or (word.islower() and not any(c.isdigit() for c in word)):
        return False
    letters, changed = changes(word)
    least = CHANGES if letters < 24 or not word.isalnum() or not (word.islower() or word.isupper()) else CHANGES / 2
    return letters >= 14 and changed >= least * letters


def is_hash(value: str) -> bool:
    """As a digest, a commit or an address is written: digits and letters up to f, in one case."""
    return _HASH.fullmatch(value.strip("\"'`\\ ")) is not None or value.startswith("sha")

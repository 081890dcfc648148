# SPDX-License-Identifier: Apache-2.0
"""Take secrets out of text: tokens, keys, passwords, URLs with credentials, cookies.

Two kinds of knowledge: what secrets look like (``ghp_...``, ``AKIA...``, a JWT, a PEM block)
and what they are called (``PASSWORD=``, ``--api-key``, ``Authorization:``). Ordinary text of
training logs stays: paths, commit hashes, shapes, ``pad_token='<pad>'``, ``PWD=/home/me``.

Pure and in linear time, for input that may be hostile. Redacting twice changes nothing.
Standard library only: the guard uses it in the user's process.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar

from keepstep.core.lazy_pattern import lazy_pattern

MARK = "[redacted]"

T = TypeVar("T")


def redact(text: str) -> str:
    """The text with every secret that is recognised replaced by ``[redacted]``."""
    for row in _SPANNING:
        if row.may_match(text.lower()):
            text = row.pattern.sub(row.put, text)
    folded = text.lower()
    rows = [row for row in _ROWS if row.may_match(folded)]
    return "\n".join(_redact_line(line, rows) for line in text.split("\n")) if rows else text


def _redact_line(line: str, rows: list[_Row]) -> str:
    folded = line.lower()
    for row in rows:
        if row.may_match(folded):
            line = row.pattern.sub(row.put, line)
    return line


def redacted(thing: T) -> T:
    """A report, a finding, evidence, a fact, or tuples and dictionaries of them, with every text in it redacted."""
    return _walk(thing, {})  # type: ignore[no-any-return]


def _walk(thing: Any, known: dict[str, str]) -> Any:
    if isinstance(thing, str):
        if thing not in known:
            known[thing] = redact(thing)
        return known[thing]
    if isinstance(thing, tuple | list):
        return type(thing)(_walk(each, known) for each in thing)
    if isinstance(thing, dict):
        return {key: _walk(each, known) for key, each in thing.items()}
    if is_dataclass(thing) and not isinstance(thing, type | Enum):
        changed = {}
        for field in fields(thing):
            if field.init:
                before = getattr(thing, field.name)
                after = _walk(before, known)
                if after is not before and after != before:
                    changed[field.name] = after
        return replace(thing, **changed) if changed else thing
    return thing


@dataclass(frozen=True, slots=True)
class _Row:
    """A pattern, and two quick questions to the text in lower case that spare most of its searches.

    One of ``hints`` is in every text that it matches; ``gate`` matches where the pattern does.
    """

    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    put: str | Callable[[re.Match[str]], str]
    gate: re.Pattern[str] | None = None

    def may_match(self, folded: str) -> bool:
        return any(map(folded.__contains__, self.hints)) and (self.gate is None or self.gate.search(folded) is not None)


def _row(hints: str, pattern: str, put: str | Callable[[re.Match[str]], str] = MARK, flags: int = 0) -> _Row:
    return _Row(tuple(hints.split()), lazy_pattern(pattern, flags), put)


def _setting(word: str, pattern: str, put: Callable[[re.Match[str]], str]) -> _Row:
    """A row for a name that ends in a word and has a value: that word has to be followed by a sign."""
    gate = rf"""{word}[\w-]{{0,12}}(?: provided)?[\\"'\]]*[^\S\n]{{0,4}}[:=,]"""
    return _Row((word,), lazy_pattern(pattern, re.IGNORECASE), put, lazy_pattern(gate))


# What may stand for a value of a setting. A quoted value may be cut off by the end of its line;
# one in escaped quotes ends at any quote; a bare one ends at a blank, less closing punctuation.
_END = r"(?=\n)|\Z"
_QUOTED = rf"""[bBrRuUfF]{{0,2}}"(?:[^"\\\n]|\\.)*(?:"|{_END})|[bBrRuUfF]{{0,2}}'(?:[^'\\\n]|\\.)*(?:'|{_END})"""
_ESCAPED = r"""\\+["'][^"'\n]*\\*["']?"""
_BARE = r"""(?!\\*["'])\S\S*?(?=[\\"',;)\]}>]{0,6}(?:\s|\Z))"""
_VALUE = rf"(?P<value>{_QUOTED}|{_ESCAPED}|{_BARE})"
_SIMPLE = rf"""(?P<value>{_QUOTED}|{_ESCAPED}|[^\s"'\\,;&)\]}}]+)"""

# Between a name and its value: NAME=value, "name": "value", ENV['NAME'] = value, ("name", "value").
_EQUALS = (
    r"""(?:\\*["']?\]?[^\S\n]{0,4}(?:=>|:=|={1,3}|:)[^\S\n]{0,4}"""
    r"""|\\*["'][^\S\n]{0,4},[^\S\n]{0,4}(?=[bBuU]?\\*["']))"""
)
_AFTER_FLAG = r"""\\*["']?(?:[^\S\n]*,[^\S\n]*(?=\\*["'])|[^\S\n]{1,4}|=)"""

_NOTHING = lazy_pattern(
    r"""[\\"'(<\[]*(?:none|null|nil|true|false|yes|no|undefined|unset|empty|redacted|hidden|str|bytes|string|bool|int
    |\*+|x{3,}|\.{3}|\$\w+|\$\{\w+\}|%\w+%)?[\\"')>\],;:}]*
    |["']?(?:/(?:run|home|etc|root|var|mnt|opt|secrets|data|workspace|usr|tmp)/|~/|\.{1,2}/)[\w./-]*["']?
    |(?:os\.environ|os\.getenv|getenv\(|self\.|args\.|kwargs|cfg\.|config\.|Optional\[|Union\[|field\().*""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
"""Values that are no secret: absent ones, types, files that hold one, references in program text."""


def _keep_name(match: re.Match[str]) -> str:
    """The setting with its name, its quotes, and the mark for its value."""
    value = match["value"]
    if _NOTHING.fullmatch(value):
        return match[0]
    head = match[0][: match.start("value") - match.start(0)]
    tail = match[0][match.end("value") - match.start(0) :]
    opening = re.match(r"""(?:[bBrRuUfF]{0,2}\\*["'])?""", value)
    quotes = opening[0] if opening else ""
    closing = re.search(r"""(?<!\\)\\*["']\Z""", value[len(quotes) :]) if quotes else None
    return f"{head}{quotes}{MARK}{closing[0] if closing else ''}{tail}"


# A "token" is a secret or a piece of text, depending on what kind of token the name says.
_BEGIN = r"(?:(?<![A-Za-z])|(?<=[a-z])(?=(?-i:[A-Z])))"
_SECRET_KIND = lazy_pattern(
    _BEGIN + r"(?:auth|access|api|bearer|refresh|session|security|secret|private|personal|login|user|bot|app|csrf|xsrf"
    r"|oauth|hf|hub|hugging_?face|github|gh|gitlab|gl|slack|wandb|neptune|comet|clearml|mlflow|databricks|ngc|jupyter"
    r"|notebook|vault|kube|k8s|docker|registry|npm|pypi|deploy|job|service|account|sas|join|bootstrap|id|sts)"
    r"[\s_.-]?\Z",
    re.IGNORECASE,
)
_TEXT_KIND = lazy_pattern(
    _BEGIN
    + r"(?:pad|eos|bos|unk|sep|cls|mask|special|stop|start|end|num|max|min|next|prev|last|first|image|audio|video"
    r"|new|prompt|decoder|forced|per|input|output|additional|added)[\s_.-]?\Z",
    re.IGNORECASE,
)
_PIECE_OF_TEXT = lazy_pattern(r"""[\\"']*(?:-?\d{1,9}(?:\.\d+)?|<[^>]*>)[\\"',]*""")
_RANDOM = lazy_pattern(r"""[\\"'bBuU]*(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])(?!0x)[\w.+/=~:-]{16,}[\\"']*""")
_SPOKEN_OF = 24


def _token(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - _SPOKEN_OF) : match.start()]
    value = match["value"]
    if _TEXT_KIND.search(before) or _PIECE_OF_TEXT.fullmatch(value):
        return match[0]
    shouted = match["name"].isupper() and not before[-1:].islower()
    if shouted or _SECRET_KIND.search(before) or _RANDOM.fullmatch(value):
        return _keep_name(match)
    return match[0]


def _pwd(match: re.Match[str]) -> str:
    """``PWD`` is a folder, unless it is a password's short name."""
    return match[0] if re.match(r"""[\\"']*(?:/|~|\.|[A-Za-z]:\\)""", match["value"]) else _keep_name(match)


def _bearer(match: re.Match[str]) -> str:
    said = match["value"]
    return match[1] + MARK if len(said) >= 20 or any(c.isdigit() for c in said) else match[0]


def _header(match: re.Match[str]) -> str:
    """``Authorization: Basic ...``: the scheme stays."""
    scheme = re.match(r"(?:[A-Za-z0-9-]{1,24}[^\S\n]+(?=\S))?", match["value"])
    return match[1] + (scheme[0] if scheme else "") + MARK


_KEYS = (
    r"(?:api|access|secret|secret[ _.-]?access|private|auth|account|shared[_.-]?access|encryption|signing|master"
    r"|subscription|storage|license|service|session|ssh|hmac|consumer|deploy)[ _.-]?key(?:[_.-]?id|[^\S\n]provided)?"
)
_PASSWORDS = (
    r"(?:(?:password|passwd|passphrase|passwort|passcode)(?:_?\d+|[_-]?hash)?"
    r"|(?:db|smtp|mail|user|mysql|pg|postgres|redis|mongo|ftp|ssh|admin|root|http|proxy|ldap|registry)_?pass)"
)
_SECRETS = r"secret(?:_?\d+)?"
_CREDENTIALS = r"credentials?(?:_?\d+)?"
_TOKENS = r"(?:auth|access|hf|api|hub|bearer|github|user|session)[_.-]?token"
_NOT_YET = r"(?!\[redacted\])"

_SPANNING = (
    _row(
        "-----begin",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:[\s\S]{0,8192}?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|(?:[A-Za-z0-9+/=\s]|\\[nr])*)",
    ),
    _row(
        "</",
        rf"(<(?P<tag>\w{{0,40}}(?:password|secret|token|apikey)\w{{0,40}})>){_NOT_YET}[^<]+(?=</(?P=tag)>)",
        rf"\1{MARK}",
        re.IGNORECASE,
    ),
    _row(
        "username",
        r"""("username\\*"\s*:\s*\\*"[^"\n]{0,128}",\s*\\*"key\\*"\s*:\s*)(?P<value>\\*"[^"\n]*")""",
        _keep_name,
    ),
    _row(
        "machine",
        rf"(\bmachine\s{{1,4}}\S+\s{{1,8}}login\s{{1,4}}\S+\s{{1,8}}password\s{{1,4}}){_NOT_YET}\S+",
        rf"\1{MARK}",
    ),
)
"""What may take several lines. Keys in armour go first, whole."""

_ROWS = (
    # Headers and names. A flag's value may follow without an equals sign.
    _row(
        "authorization",
        r"""(authorization\\*["']?[^\S\n]{0,4}[:=,][^\S\n]{0,4}[bu]?\\*["']?)(?P<value>[^\s"'\\][^"'\\\n]*)""",
        _header,
        re.IGNORECASE,
    ),
    _row(
        "cookie",
        r"""((?:\bset-)?\bcookie\\*["']?[^\S\n]{0,4}[:=,][^\S\n]{0,4}[bu]?\\*["']?)(?=[^\n=]{1,200}=)"""
        rf"""{_NOT_YET}[^\s"'\\][^"'\\\n]*""",
        rf"\1{MARK}",
        re.IGNORECASE,
    ),
    _row(
        "--",
        rf"(?<![\w-])--(?:[\w.-]{{0,40}}?(?:{_PASSWORDS}|{_KEYS}|{_SECRETS}|{_CREDENTIALS}|{_TOKENS})|pass|pwd){_AFTER_FLAG}(?!-){_VALUE}",
        _keep_name,
        re.IGNORECASE,
    ),
    _setting("pass", rf"{_PASSWORDS}{_EQUALS}{_VALUE}", _keep_name),
    _setting("key", rf"{_KEYS}{_EQUALS}{_SIMPLE}", _keep_name),
    _setting("secret", rf"{_SECRETS}{_EQUALS}{_VALUE}", _keep_name),
    _setting("credential", rf"{_CREDENTIALS}{_EQUALS}{_VALUE}", _keep_name),
    _setting("token", rf"(?P<name>token){_EQUALS}{_SIMPLE}", _token),
    _setting("pwd", rf"pwd{_EQUALS}{_VALUE}", _pwd),
    # Command lines.
    _row("bearer", r"(\bbearer[^\S\n]{1,4})(?P<value>[\w.~+/=-]{8,})", _bearer, re.IGNORECASE),
    _row("login", r"(\bwandb(?:\.|[^\S\n]+)login\b[^\n]{0,40}?)\b[0-9a-f]{40}\b", rf"\1{MARK}"),
    _row(
        "login",
        r"(\b(?:docker|podman|helm|nerdctl|az|oc|ngc)\b[^\n]{0,40}?\blogin\b[^\n]{0,200}?[^\S\n]-p[^\S\n=]?)"
        rf"{_NOT_YET}\S+",
        rf"\1{MARK}",
    ),
    _row(
        "curl wget",
        r"""(\b(?:curl|wget)\b[^\n]{0,400}?[^\S\n](?:-u|--user)[^\S\n=]?["']?[^\s:"']{1,128}:)"""
        rf"""{_NOT_YET}[^\s"']+""",
        rf"\1{MARK}",
    ),
    _row("sshpass", rf"(\bsshpass[^\S\n]+-p[^\S\n]*){_NOT_YET}\S+", rf"\1{MARK}"),
    # URLs: user and password; a token as the user; one cut off by a shortened message; signed ones.
    _row("://", r"(://)[^\s/:@'\"<>]{0,256}:[^\s/@'\"<>]{0,256}(?:@[^\s/@'\"<>]{0,256}){0,4}@", rf"\1{MARK}@"),
    _row("://", r"(://)[^\s/:@'\"<>]{1,128}:(?!\d{1,5}(?:[/?#,;\s]|$))[^\s@'\"<>]{1,256}@", rf"\1{MARK}@"),
    _row("://", rf"(://){_NOT_YET}[^\s/:@'\"<>]{{20,512}}@", rf"\1{MARK}@"),
    _row("://", r"(://[^\s/:@'\"<>\[]{1,64}:)(?!\d{1,5}\b)[^\s/@'\"<>\[]{1,256}(?=\.\.\.|…)", rf"\1{MARK}"),
    _row(
        "x-amz- x-goog- sig= signature= accesskeyid= accessid= pair-id= token= key= code= secret= auth=",
        r"((?:[?&]|&amp;)(?:X-Amz-(?:Signature|Credential|Security-Token)|X-Goog-(?:Signature|Credential)|Signature|sig"
        r"|AWSAccessKeyId|GoogleAccessId|Key-Pair-Id|(?:access_?|auth_?|id_?)?token|auth|secret|api_?key"
        rf"|(?:key|code)(?==[\w-]{{16}}))=){_NOT_YET}[^&\s\"'<>]+",
        rf"\1{MARK}",
        re.IGNORECASE,
    ),
    _row("hooks.slack", r"(hooks\.slack\.com/(?:services|workflows|triggers)/)[\w/+-]+", rf"\1{MARK}"),
    _row("webhook", r"((?:discord(?:app)?\.com/api/webhooks|webhook\.office\.com/webhookb2)/)[\w/@.-]+", rf"\1{MARK}"),
    # Shapes that speak for themselves.
    _row("akia asia", r"\b(?:AKIA[A-Z0-9]{8,}|ASIA[A-Z0-9]{12,})\b"),
    _row("ghp_ gho_ ghu_ ghs_ ghr_ github_pat_", r"\b(?:gh[pousr]_[A-Za-z0-9]{8,}|github_pat_[A-Za-z0-9_]{8,})"),
    _row(
        "glpat- gldt- glrt- glcbt- glptt- glft- glsoat- glagent- gloas- glimt- glffct-",
        r"\bgl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas|imt|ffct)-[A-Za-z0-9_.-]{8,}",
    ),
    _row("hf_ api_org_", r"\b(?:hf|api_org)_(?:[A-Za-z0-9]{28,}|(?=[a-z]*[A-Z0-9])[A-Za-z0-9]{6,}(?=\.\.\.|…|\Z))"),
    _row(
        "sk- sk_ rk_",
        r"\b(?:sk-(?:proj|ant|svcacct|admin|or|lf)-[\w-]{8,}|sk-[A-Za-z0-9]{20,}|[sr]k_(?:live|test)_\w{8,})",
    ),
    _row("xox xapp-", r"\b(?:xox[a-z]-[A-Za-z0-9-]{8,}|xapp-\d-[A-Za-z0-9-]{8,})"),
    _row("aiza ya29. gocspx-", r"\b(?:AIza[\w-]{20,}|ya29\.[\w.-]{10,}|GOCSPX-[\w-]{10,})"),
    _row("eyj", r"\beyJ[\w-]{8,}\.[\w-]{6,}(?:\.[\w-]*){0,3}"),
    _row("nvapi- npm_ pypi-", r"\b(?:nvapi-[\w-]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[\w-]{40,})"),
    _row(
        "dckr_pat_ dop_v1_ glc_ hvs. hvb.", r"\b(?:dckr_pat_[\w-]{10,}|dop_v1_\w{20,}|glc_\w{20,}|hv[sb]\.[\w-]{20,})"
    ),
    _row("wandb_v1_ gsk_ r8_ xai- dapi", r"\b(?:wandb_v1_\w{10,}|gsk_\w{30,}|r8_\w{30,}|xai-\w{30,}|dapi[0-9a-f]{32})"),
    _row(
        "sg. tskey- lsv2_ age-secret-key-",
        r"\b(?:SG\.[\w-]{16,}\.[\w-]{16,}|tskey-\w+-[\w-]{8,}|lsv2_\w{20,}|AGE-SECRET-KEY-1\w{20,})",
    ),
)
